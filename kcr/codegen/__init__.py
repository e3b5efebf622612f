"""Typed classes from schemas: what `kcr types generate` writes.

`builtin` and `crds` make `Class` values (`model`) of the two kinds of schemas, Kubernetes' own and those of
CustomResourceDefinitions; `render` writes them as a module, formatted as `ruff format` has it.

The classes keep everything that the schema has a place for. Two things are one to them: an empty list or map and none.
"""
