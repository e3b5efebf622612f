"""The shapes of Kubernetes' built-in types, from the tables that `tools.schema` and `tools.struct_tags` make.

There is a table for each version that can be served, and one of all, whose types have the fields of every version but
those of disabled features. What is stored has these fields, and objects in requests those of the served version.

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
from kcr_devcluster.versions import DISABLED, VERSIONS

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


class _Difference(msgspec.Struct, frozen=True):
    """What a version has that the one before has not, or otherwise; None for what is gone."""

    source: Mapping[str, str]
    atomic: frozenset[str]
    kinds: Mapping[str, str | BuiltinKind | None]
    types: Mapping[str, Mapping[str, str | FieldFacts | None]]


class _Published(msgspec.Struct, frozen=True):
    """The published tables. Types are decoded when they are first used.

    Attributes:
        source: Which document the table of the oldest version was made of.
        atomic: The types whose objects server-side apply replaces as a whole.
        kinds: By apiVersion and kind, the type and perhaps more.
        types: The fields of each type.
        later: What differs in the newest version.
    """

    source: Mapping[str, str]
    atomic: frozenset[str]
    kinds: Mapping[str, str | BuiltinKind]
    types: Mapping[str, msgspec.Raw]
    later: _Difference


class _Tags(msgspec.Struct, frozen=True):
    """The table of struct tags: per type its fields, each with number, `?` or `!`, and Go type: `tools.struct_tags`."""

    types: Mapping[str, str]
    later: Mapping[str, str]


# Stands for the fields and kinds of all versions.
ALL = ""
_FIELDS = msgspec.json.Decoder(dict[str, str | FieldFacts])


@cache
def _published() -> _Published:
    return msgspec.json.decode(Path(__file__).with_name("kubernetes.json").read_bytes(), type=_Published)


@cache
def _tags(name: str) -> tuple[str, ...]:
    """Return the entries of a type, those of the newest version last."""
    tags = _read_tags()
    return (*tags.types.get(name, "").split(), *tags.later.get(name, "").split())


@cache
def _read_tags() -> _Tags:
    return msgspec.json.decode(Path(__file__).with_name("struct_tags.json").read_bytes(), type=_Tags)


def type_facts(name: str, version: str = ALL) -> dict[str, FieldFacts]:
    """Return the facts of the table about the fields of a type, such as `meta.v1.ObjectMeta`.

    Args:
        name: The type.
        version: One of `VERSIONS`, or `ALL`.

    Raises:
        KeyError: The table has no such type.
    """
    table = _published()
    later = {} if version == VERSIONS[0] else table.later.types.get(name, {})
    known: Mapping[str, str | FieldFacts | None] = (
        _FIELDS.decode(table.types[name]) if name in table.types or not later else {}
    )
    if version == ALL:
        # Facts of the oldest version win, so that a field has those by which it was stored.
        known = {**{field: facts for field, facts in later.items() if field not in DISABLED.get(name, ())}, **known}
    else:
        known = {**known, **later}
    return {
        field: FieldFacts(facts) if isinstance(facts, str) else facts
        for field, facts in sorted(known.items())
        if facts is not None
    }


@cache
def _kinds(version: str) -> Mapping[str, str | BuiltinKind]:
    table = _published()
    if version == VERSIONS[0]:
        return table.kinds
    gone = {name for name, kind in table.later.kinds.items() if kind is None and version != ALL}
    known = {**table.kinds, **{name: kind for name, kind in table.later.kinds.items() if kind is not None}}
    return {name: known[name] for name in sorted(known) if name not in gone}


def type_of_kind(api_version: str, kind: str, version: str = ALL) -> str | None:
    """Return the name of the type of a kind's objects, None for unknown kinds.

    Args:
        api_version: Its group and version.
        kind: Its name.
        version: One of `VERSIONS`, or `ALL`.
    """
    known = _kinds(version).get(f"{api_version} {kind}")
    return known.type if isinstance(known, BuiltinKind) else known


def kind_types() -> dict[tuple[str, str], str]:
    """Return the names of the types of all kinds, by apiVersion and kind."""
    named = ((name.split(" "), kind) for name, kind in _kinds(ALL).items())
    return {(parts[0], parts[1]): kind if isinstance(kind, str) else kind.type for parts, kind in named}


def kubernetes_version(version: str = VERSIONS[-1]) -> str:
    """Return the release whose table is that of one of `VERSIONS`, such as `1.37.0`."""
    return _source(version)["kubernetes"]


def document_path(version: str = VERSIONS[-1]) -> str:
    """Return which file of the package `kubernetes-validate` the table of one of `VERSIONS` was made of."""
    return _source(version)["file"]


def _source(version: str) -> Mapping[str, str]:
    return _published().source if version == VERSIONS[0] else _published().later.source


def is_served(api_version: str, kind: str, version: str) -> bool:
    """Return whether a version has a kind; other kinds than those of the table are not its matter.

    Args:
        api_version: Its group and version.
        kind: Its name.
        version: One of `VERSIONS`.
    """
    name = f"{api_version} {kind}"
    return name in _kinds(version) or name not in _kinds(ALL)


def builtin_kinds() -> dict[tuple[str, str], BuiltinKind]:
    """Return the kinds whose names are known, by apiVersion and kind."""
    named = ((name.split(" "), kind) for name, kind in _kinds(ALL).items())
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
    names = (entry.partition(":")[0] for entry in _tags(name))
    return [name for name in dict.fromkeys(names) if name]


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


def type_shape(name: str, version: str = ALL) -> Shape:
    """Return the shape of a type, such as `meta.v1.ObjectMeta`.

    Args:
        name: The type.
        version: One of `VERSIONS`, or `ALL`.
    """
    return _type_shape(name, version)


@cache
def _type_shape(name: str, version: str) -> Shape:
    is_atomic = name in _published().atomic or name in _published().later.atomic
    return Shape(name.partition(".")[2], partial(_fields, name, version), is_atomic=is_atomic)


def kind_shape(api_version: str, kind: str, version: str = ALL) -> Shape:
    """Return the shape of the objects of a kind. Their metadata, which all kinds share, are left as they are.

    Args:
        api_version: Group and version, such as `v1` or `batch/v1`.
        kind: Such as `Pod`.
        version: One of `VERSIONS`, or `ALL`.
    """
    return _kind_shape(api_version, kind, version)


@cache
def _kind_shape(api_version: str, kind: str, version: str) -> Shape:

    def read() -> Mapping[str, Field]:
        known = type_of_kind(api_version, kind)
        assert known is not None  # only kinds of the table are served so
        metadata = Field(ANY._replace(shape=type_shape(_METADATA), has_fields=True))
        return {**_fields(known, version), "metadata": metadata}

    return Shape(f"{api_version.rpartition('/')[2]}.{kind}", read)


def _fields(name: str, version: str) -> Mapping[str, Field]:
    entries = [entry.split(":") for entry in _tags(name)]
    tags = dict(entries)
    embedded = dict(tag.split("=") for field, tag in entries if not field)
    defaults = DEFAULTS.get(name, {})
    made = {
        field: _field(facts, tags.get(field, ""), defaults.get(field, ABSENT), embedded, version)
        for field, facts in type_facts(name, version).items()
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


def _field(facts: FieldFacts, tag: str, default: Any, embedded: Mapping[str, str], version: str) -> Field:
    tag, _, named = tag.partition("=")
    number = tag.rstrip("?!")
    # A time that is held by value is null where it is not set.
    if tag.endswith("!") and default is ABSENT:
        default = None
    # Optional lists and maps are left out when they are empty; an object is present or absent, and never zero.
    dropped = not facts.required if facts.type.startswith((LIST, MAP)) else tag.endswith("?")
    return Field(
        _type(facts.type, version),
        keeps_zero=not dropped,
        keeps_null=tag.endswith("!"),
        default=default,
        required=facts.required,
        merge_key=facts.patch_merge_key,
        list_type=facts.list_type,
        list_map_keys=facts.list_map_keys,
        # Whatever an opaque value is, it has one owner.
        map_type="atomic" if facts.type == "any" else facts.map_type,
        number=tuple(map(int, number.split("."))) if number else (),
        go_type=named,
        embedded=tuple(name for outer, name in embedded.items() if number.startswith(f"{outer}.")),
    )


@cache
def _type(written: str, version: str) -> Type:
    if written.startswith(LIST):
        return list_of(_type(written.removeprefix(LIST), version))
    if written == _RESOURCE_LIST:
        return map_of(SCALARS["amount"])
    if written.startswith(MAP):
        return map_of(_type(written.removeprefix(MAP), version))
    return SCALARS.get(written) or _type_shape(written, version).type
