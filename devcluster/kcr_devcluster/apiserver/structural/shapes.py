"""The shape of a structural schema: its fields, defaults and list types, for the engine of the one schema.

Unlike the objects of built-in kinds, custom ones are not decoded into Go structs. A value of the wrong type stays as it
is and is refused by validation; zeros stay; a null stays where it is allowed, becomes the default where there is one,
and is absent elsewhere.

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/{pruning/algorithm,
defaulting/algorithm,defaulting/prunenulls,objectmeta/algorithm}.go.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from functools import partial
from typing import Any

from kcr_devcluster.apiserver.schema.builtin import type_shape
from kcr_devcluster.apiserver.schema.extensions import (
    EMBEDDED,
    INT_OR_STRING,
    LIST_MAP_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    PRESERVES,
    Schema,
)
from kcr_devcluster.apiserver.schema.scalars import ANY, as_given
from kcr_devcluster.apiserver.schema.shape import ABSENT, Field, Shape, Type

_METADATA = "meta.v1.ObjectMeta"
_TEXT = Field(Type("string", as_given))


class StructuralShape(Shape):
    """The fields of an object in a structural schema.

    Attributes:
        preserves_unknown: Whether fields that the schema does not name are kept: of their types nothing is known.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[], Mapping[str, Field]],
        *,
        is_atomic: bool = False,
        preserves_unknown: bool = False,
    ) -> None:
        super().__init__(name, read, is_atomic=is_atomic)
        self.preserves_unknown = preserves_unknown

    def conform(self, value: Any) -> Any:
        """Conform a value in place: prune unknown fields, set defaults, drop nulls that are not allowed."""
        if type(value) is not dict:
            return value
        conformers = self._conformers
        dropped: list[str] = []
        for name, given in value.items():
            known = conformers.get(name)
            if known is None or given is None:
                if not (self.preserves_unknown if known is None else known[2].keeps_null):
                    dropped.append(name)
            elif (conform := known[1]) is not as_given:
                made = conform(given)
                if made is not given:
                    value[name] = made
        for name in dropped:
            del value[name]
        if self._defaults:
            self._fill(value)
        return value

    def _fill(self, value: dict[str, Any]) -> None:
        for name, field in self._defaults:
            if name not in value:
                value[name] = default_of(field)

    def unknown(self, value: Mapping[str, Any], path: str = "") -> Iterator[str]:
        """Yield the paths of fields that the schema does not name and prunes, in the value's order."""
        if not self.preserves_unknown:
            yield from super().unknown(value, path)
            return
        known = {name: given for name, given in value.items() if name in self.fields}
        yield from super().unknown(known, path)


def default_of(field: Field) -> Any:
    """Return the default of a field, the caller's to change, with the defaults that its own fields have."""
    default = field.default
    return field.type.conform(deepcopy(default)) if type(default) in (dict, list) else default


def shape_of(schema: Schema, kind: str, version: str) -> StructuralShape:
    """Return the shape of the objects of a kind; their metadata are left as they are.

    Args:
        schema: The `openAPIV3Schema` of the version.
        kind: The kind, for its name.
        version: The version.
    """

    def read() -> Mapping[str, Field]:
        metadata = Field(ANY._replace(shape=type_shape(_METADATA), has_fields=True))
        return {**_fields(schema), "apiVersion": _TEXT, "kind": _TEXT, "metadata": metadata}

    is_atomic, preserves = schema.get(MAP_TYPE) == "atomic", bool(schema.get(PRESERVES))
    return StructuralShape(f"{version}.{kind}", read, is_atomic=is_atomic, preserves_unknown=preserves)


def without_defaults(schema: Schema) -> Schema:
    """Return a schema whose values get no defaults."""
    found = {name: given for name, given in schema.items() if name != "default"}
    if fields := schema.get("properties"):
        found["properties"] = {name: without_defaults(one) for name, one in fields.items()}
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), Mapping):
            found[name] = without_defaults(schema[name])
    return found


def _fields(schema: Schema) -> dict[str, Field]:
    needed = schema.get("required") or ()
    return {name: field_of(one, required=name in needed) for name, one in (schema.get("properties") or {}).items()}


def field_of(schema: Schema, *, required: bool = False) -> Field:
    """Return the field whose values have a schema."""
    default = schema.get("default")
    return Field(
        _type_of(schema),
        keeps_null=bool(schema.get("nullable")),
        default=ABSENT if default is None else default,
        required=required,
        list_type=schema.get(LIST_TYPE) or "atomic",
        list_map_keys=tuple(schema.get(LIST_MAP_KEYS) or ()),
        map_type=schema.get(MAP_TYPE) or "granular",
    )


def _type_of(schema: Schema) -> Type:
    if schema.get(INT_OR_STRING):
        return ANY._replace(name="integer,string")
    match schema.get("type"):
        case "array":
            return _list_of(schema)
        case "object" | None:
            return _object_of(schema)
        case scalar:
            return Type(str(scalar), as_given)


def _object_of(schema: Schema) -> Type:
    inner, preserves = schema.get("additionalProperties"), bool(schema.get(PRESERVES))
    if inner is not None and not schema.get("properties"):
        return ANY._replace(name="object") if inner is True or not inner else _map_of(inner)
    if preserves and not schema.get("properties") and not schema.get(EMBEDDED):
        return ANY._replace(name=schema.get("type") or ANY.name)
    is_atomic = schema.get(MAP_TYPE) == "atomic"
    read = partial(_embedded_fields if schema.get(EMBEDDED) else _fields, schema)
    return StructuralShape("object", read, is_atomic=is_atomic, preserves_unknown=preserves).type


def _embedded_fields(schema: Schema) -> dict[str, Field]:
    shape = type_shape(_METADATA)

    def conform(value: Any) -> Any:
        # Malformed metadata are refused by validation.
        with suppress(ValueError):
            shape.conform(deepcopy(value))
            return shape.conform(value)
        return value

    metadata = Type(shape.name, conform, dict, shape, has_fields=True)
    return {**_fields(schema), "apiVersion": _TEXT, "kind": _TEXT, "metadata": Field(metadata)}


def _list_of(schema: Schema) -> Type:
    item = field_of(schema.get("items") or {})

    def conform(value: Any) -> Any:
        if type(value) is list:
            for position, one in enumerate(value):
                if one is not None:
                    value[position] = item.type.conform(one)
                elif not item.keeps_null and item.default is not ABSENT:
                    value[position] = default_of(item)
        return value

    return Type("array", conform, list, items=item.type, has_fields=item.type.has_fields)


def _map_of(schema: Schema) -> Type:
    entry = field_of(schema)

    def conform(value: Any) -> Any:
        if type(value) is not dict:
            return value
        for name, one in tuple(value.items()):
            if one is not None:
                value[name] = entry.type.conform(one)
            elif not entry.keeps_null:
                if entry.default is ABSENT:
                    del value[name]
                else:
                    value[name] = default_of(entry)
        return value

    return Type("object", conform, dict, items=entry.type, has_fields=entry.type.has_fields)
