"""Structural schemas: pruning, defaulting and validation by the `openAPIV3Schema` of a CustomResourceDefinition.

A schema is the mapping that the definition holds, as JSON. Each module derives one thing from it, once per version:

- `shapes`: a `Shape` of the schema engine, for pruning, defaults, unknown fields and how lists and maps merge;
- `validation`: a check of values, with the messages of kube-openapi; `formats` and `patterns` are its leaves,
  `list_types` checks lists that are sets or maps, and embedded resources;
- `rules`: a check of `x-kubernetes-validations`, in CEL; `cel` compiles and evaluates expressions, with a library that
  is loaded when there is a rule.

`kcr_devcluster.apiserver.apiextensions` validates the schemas themselves.

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/{schema,validation}.
"""
