"""Typed classes from schemas, for `kcr types generate`.

`crds` makes `Class` values (`model`) of CustomResourceDefinitions, `kcr_devcluster.builtin_types` those of built-in
kinds; `render` writes them as a module, formatted as `ruff format` has it.

The classes keep everything that the schema has a place for. Two things are one to them: an empty list or map and none.
"""
