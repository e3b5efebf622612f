"""The shapes of Kubernetes' built-in types, from the tables that `tools.schema` and `tools.struct_tags` make.

Source: the OpenAPI document of Kubernetes and the tags of its Go structs; the tables' first lines say of which version.
"""

from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec

from kcr_devcluster.apiserver.schema.defaults import DEFAULTS
from kcr_devcluster.apiserver.schema.scalars import ANY, SCALARS
from kcr_devcluster.apiserver.schema.shape import ABSENT, Field, Shape, Type, list_of, map_of

# How the names of types begin that are lists and maps.
LIST, MAP = "[]", "map[string]"
_RESOURCE_LIST = "map[string]quantity"
_METADATA = "meta.v1.ObjectMeta"
_JSON_SCHEMA = "apiextensions.v1.JSONSchemaProps"
# The types of a schema's fields that hold a schema or another value, named by the other value.
SCHEMA_OR_BOOL, SCHEMA_OR_ARRAY = "v1.JSONSchemaPropsOrBool", "v1.JSONSchemaPropsOrArray"
SCHEMA_OR_STRINGS = "v1.JSONSchemaPropsOrStringArray"
_SCHEMA_OR: Mapping[str, str] = {
    "additionalItems": SCHEMA_OR_BOOL, "additionalProperties": SCHEMA_OR_BOOL, "items": SCHEMA_OR_ARRAY,
}  # fmt: skip
_JSON_VALUES = {"default": SCALARS["json"], "example": SCALARS["json"], "enum": list_of(SCALARS["json"])}
# The objects that strategic merge patch replaces.
_REPLACED = {("policy.v1.PodDisruptionBudgetSpec", "selector")}
_PARTIAL = "PartialObjectMetadata"
# The protobuf numbers of metadata and items in a PartialObjectMetadataList.
_METADATA_VERSIONS = {"meta.k8s.io/v1": (1, 2), "meta.k8s.io/v1beta1": (2, 1)}


class FieldFacts(msgspec.Struct, frozen=True, rename="camel"):
    """An entry of the table for a field; the entry is the type alone where the other facts are the defaults.

    Attributes:
        type: As Go writes it, such as `string`, `[]core.v1.Container` or `map[string]quantity`.
        required: Whether an object is invalid without it.
        patch_merge_key: How strategic merge patch merges a list; None for a list that it replaces.
        list_type: `atomic`, `set` or `map`.
        list_map_keys: The fields that identify the items of a list of type `map`.
        map_type: `granular` or `atomic`.
    """

    type: str
    required: bool = False
    patch_merge_key: str | None = None
    list_type: str = "atomic"
    list_map_keys: tuple[str, ...] = ()
    map_type: str = "granular"


class BuiltinKind(msgspec.Struct, frozen=True, rename="camel"):
    """The names of a kind, and the traits in which it differs from other kinds.

    Attributes:
        type: The name of its type in the table.
        plural: Its name in paths.
        namespaced: Whether its objects live in namespaces.
        short_names: Its other names in kubectl.
        categories: `all` for a kind that `kubectl get all` lists.
        traits: `status` and `scale` where there is a subresource of that name, `generation` where that is kept,
            `any-name` where names need only be fit for a path.
    """

    type: str
    plural: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    traits: tuple[str, ...] = ()


class _Table(msgspec.Struct, frozen=True):
    """The table. Types are decoded when they are first used.

    Attributes:
        atomic: The types whose objects server-side apply replaces as a whole.
        kinds: By apiVersion and kind, the type and perhaps more.
        types: The fields of each type.
        source: Which document the table was made of.
    """

    source: Mapping[str, str]
    atomic: frozenset[str]
    kinds: Mapping[str, str | BuiltinKind]
    types: Mapping[str, msgspec.Raw]


class _Tags(msgspec.Struct, frozen=True):
    """The table of struct tags: per type its fields, each with number, `?` or `!`, and Go type: `tools.struct_tags`."""

    types: Mapping[str, str]


_FIELDS = msgspec.json.Decoder(dict[str, str | FieldFacts])


@cache
def _table() -> _Table:
    return msgspec.json.decode(Path(__file__).with_name("kubernetes.json").read_bytes(), type=_Table)


@cache
def _tags() -> _Tags:
    return msgspec.json.decode(Path(__file__).with_name("struct_tags.json").read_bytes(), type=_Tags)


def type_facts(name: str) -> dict[str, FieldFacts]:
    """Return the facts of the table about the fields of a type, such as `meta.v1.ObjectMeta`.

    Raises:
        KeyError: The table has no such type.
    """
    fields = _FIELDS.decode(_table().types[name])
    return {field: FieldFacts(facts) if isinstance(facts, str) else facts for field, facts in fields.items()}


def type_of_kind(api_version: str, kind: str) -> str | None:
    """Return the name of the type of a kind's objects, None for unknown kinds."""
    known = _table().kinds.get(f"{api_version} {kind}")
    return known.type if isinstance(known, BuiltinKind) else known


def kind_types() -> dict[tuple[str, str], str]:
    """Return the names of the types of all kinds, by apiVersion and kind."""
    named = ((name.split(" "), kind) for name, kind in _table().kinds.items())
    return {(parts[0], parts[1]): kind if isinstance(kind, str) else kind.type for parts, kind in named}


def kubernetes_version() -> str:
    """Return of which version of Kubernetes the table is."""
    return _table().source["kubernetes"]


def document_path() -> str:
    """Return which file of the package `kubernetes-validate` the table was made of."""
    return _table().source["file"]


def builtin_kinds() -> dict[tuple[str, str], BuiltinKind]:
    """Return the kinds whose names are known, by apiVersion and kind."""
    named = ((name.split(" "), kind) for name, kind in _table().kinds.items())
    return {(parts[0], parts[1]): kind for parts, kind in named if isinstance(kind, BuiltinKind)}


def encoded_shape(api_version: str, kind: str) -> Shape | None:
    """Return the shape of a body by its kind: an object, a list of them, a Status, or the options of a DELETE.

    Returns:
        None for unknown kinds.
    """
    if kind == "DeleteOptions" or (api_version, kind) == ("v1", "Status"):
        return type_shape(f"meta.v1.{kind}")
    if api_version in _METADATA_VERSIONS and kind in (_PARTIAL, f"{_PARTIAL}List"):
        return _partial_shape(kind, _METADATA_VERSIONS[api_version])
    if (known := type_of_kind(api_version, kind)) is not None:
        return type_shape(known)
    item = type_of_kind(api_version, kind.removesuffix("List")) if kind.endswith("List") else None
    return None if item is None else _list_shape(f"{item}List".partition(".")[2], type_shape(item), (1, 2))


def struct_order(name: str) -> list[str]:
    """Return the names of the fields of a type in the order of its Go struct."""
    names = (entry.partition(":")[0] for entry in _tags().types.get(name, "").split())
    return [name for name in names if name]


@cache
def _partial_shape(kind: str, numbers: tuple[int, int]) -> Shape:
    metadata = {"metadata": Field(type_shape(_METADATA).type, number=(1,))}
    partial_object = Shape(f"v1.{_PARTIAL}", lambda: metadata)
    return partial_object if kind == _PARTIAL else _list_shape(f"v1.{kind}", partial_object, numbers)


@cache
def _list_shape(name: str, item: Shape, numbers: tuple[int, int]) -> Shape:
    """Return the shape of lists; the numbers are those of metadata and items."""
    fields = {
        "metadata": Field(type_shape("meta.v1.ListMeta").type, number=(numbers[0],)),
        "items": Field(list_of(item.type), number=(numbers[1],)),
    }
    return Shape(name, lambda: fields)


@cache
def type_shape(name: str) -> Shape:
    """Return the shape of a type, such as `meta.v1.ObjectMeta`."""
    return Shape(name.partition(".")[2], partial(_fields, name), is_atomic=name in _table().atomic)


@cache
def kind_shape(api_version: str, kind: str) -> Shape:
    """Return the shape of the objects of a kind. Their metadata, which all kinds share, are left as they are.

    Args:
        api_version: Group and version, such as `v1` or `batch/v1`.
        kind: Such as `Pod`.
    """

    def read() -> Mapping[str, Field]:
        known = type_of_kind(api_version, kind)
        assert known is not None  # only kinds of the table are served so
        metadata = Field(ANY._replace(shape=type_shape(_METADATA), has_fields=True))
        return {**_fields(known), "metadata": metadata}

    return Shape(f"{api_version.rpartition('/')[2]}.{kind}", read)


def _fields(name: str) -> Mapping[str, Field]:
    entries = [entry.split(":") for entry in _tags().types.get(name, "").split()]
    tags = dict(entries)
    embedded = dict(tag.split("=") for field, tag in entries if not field)
    defaults = DEFAULTS.get(name, {})
    made = {
        field: _field(facts, tags.get(field, ""), defaults.get(field, ABSENT), embedded)
        for field, facts in type_facts(name).items()
    }
    made |= {field: made[field]._replace(is_replaced=True) for owner, field in _REPLACED if owner == name}
    if name == _JSON_SCHEMA:
        # The published schema has no types that are one thing or another.
        made |= {field: made[field]._replace(type=_schema_or(other)) for field, other in _SCHEMA_OR.items()}
        made |= {field: made[field]._replace(type=_JSON_VALUES[field]) for field in _JSON_VALUES}
        dependencies = map_of(_schema_or(SCHEMA_OR_STRINGS))
        made["dependencies"] = made["dependencies"]._replace(type=dependencies)
    return made


@cache
def _schema_or(name: str) -> Type:
    """Return the type of a value that is a schema or has another type; the name is Go's."""
    schema = type_shape(_JSON_SCHEMA)
    other = {
        SCHEMA_OR_ARRAY: list_of(schema.type), SCHEMA_OR_STRINGS: list_of(SCALARS["string"]),
        SCHEMA_OR_BOOL: SCALARS["bool"],
    }[name]  # fmt: skip

    def conform(value: Any) -> Any:
        if type(value) is dict:
            return schema.conform(value)
        if type(value) is other.zero:
            return other.conform(value)
        if name == SCHEMA_OR_BOOL:
            raise ValueError("boolean or JSON schema expected")
        return None

    return Type(name, conform, dict, schema, has_fields=True)


def _field(facts: FieldFacts, tag: str, default: Any, embedded: Mapping[str, str]) -> Field:
    tag, _, named = tag.partition("=")
    number = tag.rstrip("?!")
    # A time that is held by value is null where it is not set.
    if tag.endswith("!") and default is ABSENT:
        default = None
    # Optional lists and maps are left out when they are empty; an object is present or absent, and never zero.
    dropped = not facts.required if facts.type.startswith((LIST, MAP)) else tag.endswith("?")
    return Field(
        _type(facts.type),
        keeps_zero=not dropped,
        keeps_null=tag.endswith("!"),
        default=default,
        required=facts.required,
        merge_key=facts.patch_merge_key,
        list_type=facts.list_type,
        list_map_keys=facts.list_map_keys,
        map_type=facts.map_type,
        number=tuple(map(int, number.split("."))) if number else (),
        go_type=named,
        embedded=tuple(name for outer, name in embedded.items() if number.startswith(f"{outer}.")),
    )


@cache
def _type(written: str) -> Type:
    if written.startswith(LIST):
        return list_of(_type(written.removeprefix(LIST)))
    if written == _RESOURCE_LIST:
        return map_of(SCALARS["amount"])
    if written.startswith(MAP):
        return map_of(_type(written.removeprefix(MAP)))
    return SCALARS.get(written) or type_shape(written).type
