"""Schemas: what the fields of types are called, what may stand in them, and how they merge.

`shape` is the engine. It knows types as values (`Shape`, `Field`, `Type`) and nothing of Kubernetes' versions:

- `Shape.conform` brings a value into the form in which it is stored, or refuses it in the words of Go's decoder;
- `Shape.unknown` names the fields that no type has, with their paths;
- `Type.field` leads from a value to the types of what is in it: that is how strategic merge patch finds merge keys.

`builtin` reads the shapes of Kubernetes' built-in types from `kubernetes.json`, a table of facts that
`python -m tools.schema` makes from the OpenAPI document that Kubernetes publishes. A type is read when something of
that type is first seen, so that a server pays for the kinds that are used.

`quantities` and `times` know the one way in which amounts and moments are written.
"""
