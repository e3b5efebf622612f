"""Structural schemas: what the `openAPIV3Schema` of a CustomResourceDefinition makes of the objects of its kind.

A schema is the mapping that the definition holds, as JSON. Each module makes one thing of it, once per version:

- `shapes`: a `Shape` of the schema engine, for pruning, defaults, unknown fields and how lists and maps merge;
- `validation`: a check of values, in the words of kube-openapi; `formats` and `patterns` are its leaves, `list_types`
  and `embedded` what it says of lists that are sets or maps and of embedded resources;
- `rules`: a check of `x-kubernetes-validations`, in CEL; `cel` compiles and evaluates expressions, with a library that
  is loaded when there is a rule.

What a schema may say, and what not, is checked by `kcr_devcluster.apiserver.apiextensions`.

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/{schema,validation}.
"""
