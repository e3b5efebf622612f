"""CustomResourceDefinitions: their validation, and the kinds that are served because of them.

- `strategy` is that of the definitions: defaults, and validation by `validation`, `schema_rules`, `structural_rules`;
- `definitions` keeps the served kinds in line with the stored definitions: `naming` decides which definition gets a
  name, and `served_kinds` makes a `Kind` of each version;
- `custom_resources` is the strategy of the objects, by the structural schema of their version: see
  `kcr_devcluster.apiserver.structural`.

Objects are stored once, in the storage version. The kinds of other versions are views of them (`Conversion`): a write
through a view is defaulted and validated by the view's schema, and converted when it is stored. Where a webhook
converts (`conversion`, `conversion_review`), an object stays in the version in which it was stored until it is written.

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver.
"""
