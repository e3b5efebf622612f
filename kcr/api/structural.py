"""The structural schema of a class: the wire form of its values, for a CustomResourceDefinition.

A field is required when the class needs it, and has the default of the class: the API server writes it where the class
leaves it out, so that rules can rely on it. None is no default, nor are empty lists and maps: absence means the same,
and a default would put the field into every object, in the name of the manager that creates it.

Descriptions are made from Google-style docstrings: of a class the first paragraph, of a field its entry in
`Attributes:`.

Source: apiextensions-apiserver/pkg/apiserver/schema; sigs.k8s.io/controller-tools/pkg/crd/schema.go.
"""

import collections.abc
import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, NewType, Union, get_args, get_origin
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import FieldInfo, fields

from kcr.api import codec
from kcr.api.markers import ListType, Validation
from kcr.api.meta import FIELD_REMEDY, Condition, MicroTime, ObjectMeta, Resource
from kcr.api.selectors import LabelSelector

_SECTION = re.compile(r"^(Args|Attributes|Example|Examples|Note|Notes|Raises|Returns|Source|Yields):", re.MULTILINE)
_ENTRY = re.compile(r"^ {4}(\w+)(?: \([^)]*\))?: (.*(?:\n(?: {5,}.*| *$))*)", re.MULTILINE)

Schema = dict[str, Any]

_INT_OR_STRING: Schema = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
_OPAQUE: Schema = {"x-kubernetes-preserve-unknown-fields": True}
_SCALARS: Mapping[Any, Schema] = {
    bool: {"type": "boolean"}, int: {"type": "integer", "format": "int64"}, float: {"type": "number"},
    str: {"type": "string"}, bytes: {"type": "string", "format": "byte"},
    datetime: {"type": "string", "format": "date-time"}, MicroTime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"}, UUID: {"type": "string", "format": "uuid"}, msgspec.Raw: _OPAQUE,
}  # fmt: skip
_TEXT: Schema = {"type": "string"}
# Types with a schema of their own. The metadata of a template are carried: the server knows them only at the root.
_KNOWN: Mapping[type, Schema] = {
    ObjectMeta: {"type": "object", **_OPAQUE},
    # Source: apimachinery/pkg/apis/meta/v1/types.go, Condition.
    Condition: {
        "description": "One aspect of the current state.",
        "type": "object",
        "required": ["lastTransitionTime", "message", "reason", "status", "type"],
        "properties": {
            "lastTransitionTime": {
                **_SCALARS[datetime], "description": "The last time the status changed."
            },
            "message": {**_TEXT, "description": "Details for people; may be empty.", "maxLength": 32768},
            "observedGeneration": {
                **_SCALARS[int], "description": "The generation of the spec that the condition was set for.",
                "minimum": 0,
            },
            "reason": {
                **_TEXT, "description": "Why the status is what it is, in CamelCase.", "minLength": 1,
                "maxLength": 1024, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            },
            "status": {**_TEXT, "description": "Whether the condition holds.", "enum": ["True", "False", "Unknown"]},
            "type": {
                **_TEXT, "description": "The condition, in CamelCase.", "maxLength": 316,
                "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
                           r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
            },
        },
    },
}  # fmt: skip
_ATOMIC = (LabelSelector,)
# Types of the default of a field.
_VALUES = (str, bytes, int, float, tuple, list, dict, set, datetime, Enum, msgspec.Struct)

# Names of msgspec.Meta that are limits of numbers, and their keywords in a schema.
_LIMITS = {"ge": "minimum", "gt": "minimum", "le": "maximum", "lt": "maximum", "multiple_of": "multipleOf"}
_SIZES = {"string": "{}Length", "array": "{}Items", "object": "{}Properties"}
# A value of Enum or Literal, by the type of its members.
_MEMBERS: Mapping[type, Schema] = {str: {"type": "string"}, int: {"type": "integer"}, bool: {"type": "boolean"}}


def summary(kind: type) -> str:
    """Return the first paragraph of a class's own docstring, on one line; empty without one."""
    text = _docstring(kind)
    section = _SECTION.search(text)
    return _line(text[: section.start()] if section else text)


@cache
def attributes(kind: type) -> Mapping[str, str]:
    """Return the descriptions of fields in the docstrings of a class and its bases, by Python name."""
    return {name: _line(text) for base in reversed(kind.__mro__) for name, text in _entries(_docstring(base))}


def _docstring(kind: type) -> str:
    return inspect.cleandoc(kind.__dict__.get("__doc__") or "")


def _entries(text: str) -> Iterator[tuple[str, str]]:
    found = re.search(r"^Attributes:\n", text, re.MULTILINE)
    if found:
        section = text[found.end() :]
        end = _SECTION.search(section)
        yield from _ENTRY.findall(section[: end.start()] if end else section)


def _line(text: str) -> str:
    return " ".join(text.strip().partition("\n\n")[0].split())


class _Place(NamedTuple):
    """Where a type stands: the class and the field, and the classes around them."""

    owner: type
    field: str
    outer: tuple[type, ...]

    def error(self, fault: str, remedy: str) -> TypeError:
        return TypeError(f"{self.owner.__name__}.{self.field}: {fault}: {remedy}")


def object_schema(kind: type[msgspec.Struct], outer: tuple[type, ...] = ()) -> Schema:
    """Return the structural schema of the values of a class.

    Args:
        kind: A class of frozen values.
        outer: The classes in which it is used, from the outermost.

    Raises:
        TypeError: No schema can express the class; the message names class, field and remedy.
    """
    if kind in _KNOWN:
        return dict(_KNOWN[kind])
    schema: Schema = {"description": summary(kind), "type": "object"} if summary(kind) else {"type": "object"}
    found = [one for one in _fields(kind) if not (issubclass(kind, Resource) and one.name == "metadata")]
    properties = {one.encode_name: _property(kind, one, (*outer, kind)) for one in found}
    required = [one.encode_name for one in found if one.required]
    if required:
        schema["required"] = required
    if properties:
        schema["properties"] = properties
    if kind in _ATOMIC:
        schema["x-kubernetes-map-type"] = "atomic"
    options = getattr(kind, "crd_options", None)
    return schema | (
        {"x-kubernetes-validations": rules(options.validations)} if options and options.validations else {}
    )


def _fields(kind: type[msgspec.Struct]) -> tuple[FieldInfo, ...]:
    """Return the fields of a class; an attribute without a type is an error."""
    try:
        found, typed = fields(kind), {name for base in kind.__mro__ for name in inspect.get_annotations(base)}
    except NameError as error:
        raise TypeError(f"{kind.__name__}: {error}: import in {kind.__module__} what its annotations name") from error
    for name, value in vars(kind).items():
        # Names with an underscore and names in capitals are constants of the class.
        if isinstance(value, _VALUES) and name not in typed and not name.startswith("_") and not name.isupper():
            remedy = f"write `{name}: {type(value).__name__} = …`, or a constant in capitals"
            raise TypeError(f"{kind.__name__}.{name}: it has a value and no type, and so is not a field: {remedy}")
    return found


def rules(validations: tuple[Validation, ...]) -> list[Schema]:
    """Return CEL rules as they stand in a schema."""
    return [
        {_camel(name): said for name, said in one._asdict().items() if said not in ("", None)} for one in validations
    ]


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _property(owner: type, field: FieldInfo, outer: tuple[type, ...]) -> Schema:
    place = _Place(owner, field.name, outer)
    schema = _schema(field.type, place)
    if field.required and NoneType in get_args(_bare(field.type)):
        schema["nullable"] = True
    default = _default(field, place)
    if default is not None and (default != "" or _admits_empty(schema)):
        schema["default"] = default
    described = _own_description(field.type) or attributes(owner).get(field.name, "") or schema.get("description", "")
    return {"description": "", **schema} | {"description": described} if described else schema


def _own_description(of: Any) -> str:
    if get_origin(of) is Annotated:
        return next((m.description for m in of.__metadata__ if isinstance(m, msgspec.Meta) and m.description), "")
    return ""


def _default(field: FieldInfo, place: _Place) -> Any:
    """Return the default of the class as the wire has it; None for none, and for empty lists and maps."""
    if field.required or field.default in (None, UNSET):
        return None
    made = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    if isinstance(made, tuple | list | Mapping | set | frozenset) and not made:
        return None
    try:
        written = codec.encode(made)
        if made != "":  # its limits may be for other values
            codec.decoder(field.type).decode(written)
        return msgspec.json.decode(written)
    except (TypeError, ValueError) as error:
        raise place.error(f"its default does not fit ({error})", "give it another one, or None") from error


def _admits_empty(schema: Schema) -> bool:
    """Return whether an empty text fits, which the class leaves out: its limits and rules may be for other values."""
    if schema.get("minLength") or "format" in schema or "x-kubernetes-validations" in schema:
        return False
    return re.search(schema.get("pattern", ""), "") is not None and "" in schema.get("enum", ("",))


def _schema(of: Any, place: _Place) -> Schema:
    of = _bare(of)
    form = _FORMS.get(get_origin(of))
    if form is not None:
        return form(of, place)
    if of in _SCALARS:
        return dict(_SCALARS[of])
    if isinstance(of, type) and issubclass(of, Enum):
        return _members(tuple(one.value for one in of), place)
    if isinstance(of, type) and issubclass(of, msgspec.Struct):
        return _object(of, place)
    raise place.error(*_FAULTS.get(of, (f"{getattr(of, '__name__', of)} has no schema", FIELD_REMEDY)))


_FAULTS: Mapping[Any, tuple[str, str]] = {
    Any: ("it has no type", "give it one, or carry it as bytes with msgspec.Raw"),
    object: ("it has no type", "give it one, or carry it as bytes with msgspec.Raw"),
    tuple: ("its items have no type", "write tuple[str, ...]"),
    list: ("its items have no type", "write tuple[str, ...]"),
    dict: ("its values have no type", "write Mapping[str, str]"),
    Mapping: ("its values have no type", "write Mapping[str, str]"),
    NoneType: ("it holds nothing but None", "give it a type, such as `str | None`"),
}


def _bare(of: Any) -> Any:
    """Return a type without names for it that are no types of their own."""
    while isinstance(of, NewType) or type(of).__name__ == "TypeAliasType":
        of = of.__supertype__ if isinstance(of, NewType) else of.__value__
    return of


def _object(of: type[msgspec.Struct], place: _Place) -> Schema:
    if of in place.outer:
        raise place.error(f"{of.__name__} holds itself, which no structural schema can say", "carry it as msgspec.Raw")
    if issubclass(of, Resource):
        raise place.error(
            f"{of.__name__} is a kind, and is encoded without apiVersion and kind inside of another object",
            'carry it as Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"type": "object", '
            '"x-kubernetes-embedded-resource": True})], or name its spec',
        )
    if of.__struct_config__.array_like or of.__struct_config__.tag is not None:
        raise place.error(f"{of.__name__} is array_like or tagged", "subclass kcr.Object without options")
    return object_schema(of, place.outer)


def _annotated(of: Any, place: _Place) -> Schema:
    schema = _schema(of.__origin__, place)
    for mark in of.__metadata__:
        match mark:
            case msgspec.Meta():
                schema |= _constraints(mark, schema, place)
            case ListType():
                schema |= _list_type(mark, schema, place)
            case Validation():
                schema["x-kubernetes-validations"] = [*schema.get("x-kubernetes-validations", ()), *rules((mark,))]
    return schema


def _constraints(meta: msgspec.Meta, schema: Schema, place: _Place) -> Schema:
    found: Schema = {}
    for name, wire in _LIMITS.items():
        limit = getattr(meta, name)
        if limit is not None:
            found[wire] = limit
        if limit is not None and name in ("gt", "lt"):
            found[f"exclusive{wire.capitalize()}"] = True
    for name, least in (("min_length", "min"), ("max_length", "max")):
        size = getattr(meta, name)
        if size is not None and schema.get("type") not in _SIZES:
            raise place.error(f"{name} is for text, lists and maps", "put it on one of these")
        if size is not None:
            found[_SIZES[schema["type"]].format(least)] = 4 * math.ceil(size / 3) if _is_base64(schema) else size
    texts = {"pattern": meta.pattern, "title": meta.title, "description": meta.description}
    return found | {name: text for name, text in texts.items() if text} | (meta.extra_json_schema or {})


def _is_base64(schema: Schema) -> bool:
    return schema.get("format") == "byte"


def _list_type(mark: ListType, schema: Schema, place: _Place) -> Schema:
    if schema.get("type") != "array":
        raise place.error("kcr.ListType is for lists", "put it on a tuple[…, ...]")
    if (mark.type == "map") != bool(mark.keys):
        raise place.error("a list of type map has keys, and no other has", 'write kcr.ListType("map", keys=("name",))')
    known = schema["items"].get("properties", {})
    for key in mark.keys:
        if key not in known:
            raise place.error(f"its items have no field {key!r}", f"name one of {', '.join(known) or 'an object'}")
        if key not in schema["items"].get("required", ()) and "default" not in known[key]:
            raise place.error(f"the key {key!r} of its items is optional", "require it, or give it a default")
    keys = {"x-kubernetes-list-map-keys": list(mark.keys)} if mark.keys else {}
    return {**keys, "x-kubernetes-list-type": mark.type}


def _union(of: Any, place: _Place) -> Schema:
    rest = [one for one in get_args(of) if one not in (NoneType, UnsetType)]
    if len(rest) == 1:
        return _schema(rest[0], place)
    if set(rest) == {int, str}:
        return dict(_INT_OR_STRING)
    if all(get_origin(one) is Literal for one in rest):
        return _members(tuple(value for one in rest for value in get_args(one)), place)
    names = " | ".join(getattr(one, "__name__", str(one)) for one in rest)
    raise place.error(
        f"{names} is a union, which no structural schema can say", "use an optional field for each, of which one is set"
    )


def _members(values: tuple[Any, ...], place: _Place) -> Schema:
    given = [value for value in values if value is not None]
    kinds = {type(value) for value in given}
    if len(kinds) != 1 or not kinds <= _MEMBERS.keys():
        raise place.error("its values are of several types", "use values of one of the types str and int")
    return {**_MEMBERS[kinds.pop()], "enum": given}


def _literal(of: Any, place: _Place) -> Schema:
    return _members(get_args(of), place)


def _list(of: Any, place: _Place) -> Schema:
    arguments = get_args(of)
    if get_origin(of) is tuple and (len(arguments) != 2 or arguments[1] is not ...):
        raise place.error("a tuple of fixed length has no structural schema", "write tuple[…, ...], or a kcr.Object")
    schema: Schema = {"type": "array", "items": _schema(arguments[0], place)}
    if get_origin(of) in (set, frozenset):
        schema["x-kubernetes-list-type"] = "set"
    if _bare(arguments[0]) is Condition:
        schema |= {"x-kubernetes-list-map-keys": ["type"], "x-kubernetes-list-type": "map"}
    return schema


def _map(of: Any, place: _Place) -> Schema:
    key, value = get_args(of)
    if _schema(key, place).get("type") != "string":
        raise place.error("keys of maps are text", "write Mapping[str, …]")
    return {"type": "object", **(_OPAQUE if value is Any else {"additionalProperties": _schema(value, place)})}


_FORMS: Mapping[Any, Callable[[Any, _Place], Schema]] = {
    Annotated: _annotated, Union: _union, UnionType: _union, Literal: _literal,
    **dict.fromkeys((tuple, list, set, frozenset, collections.abc.Sequence), _list),
    **dict.fromkeys((dict, collections.abc.Mapping), _map),
}  # fmt: skip
