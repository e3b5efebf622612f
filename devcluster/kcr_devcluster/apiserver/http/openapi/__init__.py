"""OpenAPI: the schemas of the served kinds, for `kubectl explain`, `apply` and `create`, and for code generators.

The schemas of built-in kinds are made of the one schema's table, those of custom kinds of their
CustomResourceDefinitions. Upstream's descriptions are included where the package `kubernetes-validate` is installed
(the extra `schema`).
"""
