"""CustomResourceDefinitions of classes.

- `markers`: declarations of a class beyond its fields, named like kubebuilder's markers;
- `structural`: the structural schema of a class;
- `docstrings`: descriptions;
- `manifest`: the CustomResourceDefinition, `kcr.crd_manifest`.
"""
