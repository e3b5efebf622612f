"""Schemas: the fields of types, the validity of their values, and how they merge.

`shape` is the engine. Its input is a schema from any source: types as values (`Shape`, `Field`, `Type`).

- `Shape.conform` brings a value into the form in which it is stored: unknown fields are pruned, defaults are set,
  zero values that count as absent are dropped, and wrong types are refused with the messages of Go's decoder;
- `Shape.unknown` and `Shape.missing` yield the fields that no type has and those that are required, with their paths;
- `Type.field` leads from a value to the types of its fields, entries and items: that is how patches find merge keys,
  list types and the keys of list items.

`builtin` makes the shapes of Kubernetes' built-in types, each when it is first needed. Its tables are
`kubernetes.json`, which `python -m tools.schema` makes of the OpenAPI document that Kubernetes publishes,
`struct_tags.json`, which `python -m tools.struct_tags` makes of its Go structs, and `defaults`.

`scalars` and `quantities` conform values without fields; `protobuf` decodes bodies by the numbers in the schema, and
`protobuf_encoder` encodes them.
"""
