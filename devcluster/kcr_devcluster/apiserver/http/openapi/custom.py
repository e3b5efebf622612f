"""Schemas of custom kinds as OpenAPI documents have them: with the fields that all objects have.

The second version has less: kubectl refuses objects with unknown fields where it finds types and properties.

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/controller/openapi, builder/builder.go and
v2/conversion.go.
"""

from collections.abc import Callable, Mapping
from typing import Any

Schema = Mapping[str, Any]

_CONVENTIONS = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_METADATA = {
    "description": f"Standard object's metadata. More info: {_CONVENTIONS}#metadata",
    "allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}],
}
_HEAD: Schema = {
    "apiVersion": {
        "description": "APIVersion defines the versioned schema of this representation of an object. Servers should "
        "convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: "
        f"{_CONVENTIONS}#resources",
        "type": "string",
    },
    "kind": {
        "description": "Kind is a string value representing the REST resource this object represents. Servers may "
        "infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: "
        f"{_CONVENTIONS}#types-kinds",
        "type": "string",
    },
    "metadata": _METADATA,
}
_EMBEDDED: Schema = {
    "apiVersion": {
        "description": "apiVersion defines the versioned schema of this representation of an object. More info: "
        f"{_CONVENTIONS}#resources",
        "type": "string",
    },
    "kind": {
        "description": "kind is a string value representing the type of this object. In CamelCase. More info: "
        f"{_CONVENTIONS}#types-kinds",
        "type": "string",
    },
    "metadata": _METADATA,
}
_IS_FREE = "x-kubernetes-preserve-unknown-fields"
_JUNCTORS = ("allOf", "anyOf", "oneOf", "not")


def published(schema: Schema, *, in_v2: bool) -> Schema:
    """Return the schema of a custom kind as documents have it.

    Args:
        schema: As the definition has it.
        in_v2: Whether it is for the second version of OpenAPI.
    """
    if in_v2:
        if schema.get(_IS_FREE):
            return {"type": "object"}
        schema = _in_v2(schema)
    found = _with_embedded(schema, in_v2=in_v2)
    return {**found, "properties": {**found.get("properties", {}), **_HEAD}}


def _in_v2(schema: Schema) -> Schema:
    found = {name: value for name, value in schema.items() if name not in _JUNCTORS}
    is_free, is_nullable = schema.get(_IS_FREE), found.pop("nullable", False)
    dropped = set[str]()
    if is_free or is_nullable:
        dropped |= {"items", "properties"}
    is_list = schema.get("type") == "array" and ("items" not in schema or "items" in dropped)
    if is_nullable or is_list or (is_free and schema.get("type") == "object"):
        dropped.add("type")
    found = {name: value for name, value in found.items() if name not in dropped}
    fields = found.get("properties", {})
    required = [name for name in found.pop("required", ()) if not fields.get(name, {}).get("nullable")]
    return _map_inner({**found, "required": required} if required else found, _in_v2)


def _with_embedded(schema: Schema, *, in_v2: bool) -> Schema:
    """Return a schema whose embedded objects have the fields that all objects have."""
    found = _map_inner(schema, lambda inner: _with_embedded(inner, in_v2=in_v2))
    if not schema.get("x-kubernetes-embedded-resource") or (in_v2 and schema.get(_IS_FREE)):
        return found
    required = found.get("required", ())
    more = [name for name in ("kind", "apiVersion") if name not in required]
    return {**found, "properties": {**found.get("properties", {}), **_EMBEDDED}, "required": [*required, *more]}


def _map_inner(schema: Schema, function: Callable[[Schema], Schema]) -> dict[str, Any]:
    """Return a schema with a function applied to the schemas of its fields, items and values."""
    found = dict(schema)
    if "properties" in found:
        found["properties"] = {name: function(one) for name, one in found["properties"].items()}
    for name in ("items", "additionalProperties"):
        if isinstance(found.get(name), Mapping):
            found[name] = function(found[name])
    return found
