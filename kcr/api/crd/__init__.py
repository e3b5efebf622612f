"""CustomResourceDefinitions of classes.

- `markers`: what a class says beyond its fields, in the words of kubebuilder's markers;
- `structural`: the structural schema of a class;
- `docstrings`: descriptions;
- `manifest`: the CustomResourceDefinition, `kcr.crd_manifest`.
"""
