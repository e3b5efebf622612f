"""The rules of structural schemas, as a real API server checks them when a CustomResourceDefinition is created."""

from collections.abc import Iterator, Mapping
from typing import Any

_TYPES = {"array", "boolean", "integer", "number", "object", "string"}
_ANYTHING = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"


def faults(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield what is wrong with a structural schema, with the place.

    Source: apiextensions-apiserver/pkg/apiserver/schema/validation.go; pkg/apis/apiextensions/validation.
    """
    kind = schema.get("type")
    if kind not in _TYPES and not schema.get(_ANYTHING) and not schema.get(_INT_OR_STRING):
        yield f"{path}.type: Required value: must not be empty for specified object fields"
    if "properties" in schema and "additionalProperties" in schema:
        yield f"{path}.additionalProperties: Forbidden: properties and additionalProperties are mutual exclusive"
    if kind == "array" and "items" not in schema:
        yield f"{path}.items: Required value: must be specified"
    if kind != "object" and ("properties" in schema or "additionalProperties" in schema):
        yield f"{path}.type: Invalid value: must be object"
    yield from (f"{path}.required: {one} is no property" for one in schema.get("required", ())
                if one not in schema.get("properties", {}))  # fmt: skip
    yield from _list_faults(schema, path)
    for name, inner in schema.get("properties", {}).items():
        yield from faults(inner, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if name in schema:
            yield from faults(schema[name], f"{path}[{name}]")


def _list_faults(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    items, keys = schema.get("items", {}), schema.get("x-kubernetes-list-map-keys", ())
    if (schema.get("x-kubernetes-list-type") == "map") != bool(keys):
        yield f"{path}.x-kubernetes-list-map-keys: Required value: for a list of type map, and for no other"
    for key in keys:
        known = items.get("properties", {}).get(key)
        if known is None:
            yield f"{path}.x-kubernetes-list-map-keys: entries must all be names of item properties"
        elif key not in items.get("required", ()) and "default" not in known:
            yield f"{path}.items.properties[{key}].default: Required value: is in keys, so required or with a default"
    if schema.get("x-kubernetes-list-type") == "set" and items.get("type") in ("object", "array"):
        yield f"{path}.items: Invalid value: items of a set are scalars or atomic"
