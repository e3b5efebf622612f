"""Classes to be written, as values: names in Python, fields, and expressions of annotations and defaults."""

import keyword
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, Union

import msgspec

# Names, numbers and the like, as they are written.
Atom = str

_WORD = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?=V\d)|V\d+|[A-Z]+(?![a-z])|[A-Z][a-z0-9]*|[a-z0-9]+")
# Names that a field would hide from the annotations below it or from its class; and those hidden from a kind's class.
_HIDES = frozenset(("bool", "bytes", "crd_options", "datetime", "float", "int", "msgspec", "str", "tuple"))
_KIND_HIDES = frozenset(("detached", "key", "resource"))
# Names that modules of types import.
RESERVED = frozenset(
    ("Annotated", "Any", "Condition", "FullResource", "IntOrString", "ListType", "Literal", "Mapping", "MicroTime",
     "None", "Object", "ObjectMeta", "PrinterColumn", "Quantity", "Requirement", "ScaleSubresource", "Self", "True",
     "False", "Validation", "LabelSelector", "OwnerReference")
)  # fmt: skip


def field_name(wire: str, *, of_kind: bool = False) -> str:
    """Return the name of a field in Python: `pod_ip` for `podIP`, `from_` for `from`.

    Args:
        wire: Its name on the wire.
        of_kind: Whether it is a field of a kind, which has members of its own.
    """
    name = "_".join(word.lower() for word in _WORD.findall(wire)) or "field"
    name = f"_{name}" if name[0].isdigit() else name
    hides = name in _HIDES or (of_kind and name in _KIND_HIDES)
    return f"{name}_" if keyword.iskeyword(name) or hides else name


def field_names(wires: Iterable[str], *, of_kind: bool) -> dict[str, str]:
    """Return the names of the fields of a class, by their names on the wire; no two are the same."""
    found: dict[str, str] = {}
    for wire in wires:
        name = field_name(wire, of_kind=of_kind)
        while name in found.values():
            name += "_"
        found[wire] = name
    return found


@cache
def encoded(name: str) -> str:
    """Return the default name of a field on the wire."""
    made = msgspec.defstruct("Made", [(name, int)], rename="camel")
    return str(msgspec.structs.fields(made)[0].encode_name)


def class_name(*words: str) -> str:
    """Return the name of a class made of names on the wire: `WebsiteSpec` for Website and spec."""
    name = "".join(word[0].upper() + word[1:] for text in words for word in re.findall(r"[A-Za-z0-9]+", text))
    return f"{name}Type" if name in RESERVED or not name[:1].isalpha() else name


class Text(NamedTuple):
    """A literal of text."""

    value: str


class CallExpr(NamedTuple):
    """Something with brackets: a call, a subscript, or with an empty head a tuple or dict."""

    head: str
    items: tuple["Expr", ...]
    brackets: str = "()"


class Pair(NamedTuple):
    """A keyword argument, `name=value`, or with another sign the entry of a dict."""

    name: str
    value: "Expr"
    sign: str = "="


class Either(NamedTuple):
    """A union of types."""

    parts: tuple["Expr", ...]


class Later(NamedTuple):
    """An annotation that names a class which is declared below, so that it is quoted."""

    of: "Expr"


Expr = Union[Atom, Text, CallExpr, Pair, Either, Later]  # noqa: UP007  # names of classes above are in quotes


class ClassField(NamedTuple):
    """A field of a class.

    Attributes:
        name: In Python.
        wire: On the wire.
        type: Its annotation.
        default: None where it is required.
        text: Its description, in paragraphs; may be empty.
    """

    name: str
    wire: str
    type: Expr
    default: Expr | None = None
    text: str = ""


class Class(NamedTuple):
    """A class to be written.

    Attributes:
        name: Of the class.
        base: `Object`, or for a kind `FullResource`.
        text: Its description, in paragraphs; may be empty.
        fields: In the order of the schema.
        keywords: Of the class.
        refers: The classes that its fields name.
        holds_raw: Whether it is a kind with opaque fields, at whatever depth.
        is_secret: Whether its values are kept out of its `repr`.
    """

    name: str
    base: str
    text: str
    fields: tuple[ClassField, ...]
    keywords: tuple[Pair, ...] = ()
    refers: frozenset[str] = frozenset()
    holds_raw: bool = False
    is_secret: bool = False


NONE, EMPTY_LIST, EMPTY_MAP, UNSET = "None", "()", "{}", "msgspec.UNSET"
OPAQUE = "msgspec.Raw"


def optional(of: Expr) -> Expr:
    """Return a type or None."""
    return of if isinstance(of, Either) and NONE in of.parts else Either((of, NONE))


def list_of(of: Expr) -> Expr:
    """Return the type of lists."""
    return CallExpr("tuple", (of, "..."), "[]")


def map_of(of: Expr) -> Expr:
    """Return the type of maps from text."""
    return CallExpr("Mapping", ("str", of), "[]")


def annotated(of: Expr, *marks: Expr) -> Expr:
    """Return a type with marks, or the type itself without any."""
    if not marks:
        return of
    if isinstance(of, CallExpr) and of.head == "Annotated":
        return of._replace(items=(*of.items, *marks))
    return CallExpr("Annotated", (of, *marks), "[]")


def literal(value: Any) -> Expr:
    """Return a value of JSON as an expression."""
    match value:
        case str():
            return Text(value)
        case list() | tuple():
            return CallExpr("", tuple(literal(one) for one in value))
        case Mapping():
            pairs = (Pair(flat(Text(str(name))), literal(one), ": ") for name, one in value.items())
            return CallExpr("", tuple(pairs), "{}")
    return repr(value)


def keywords(values: Mapping[str, Any]) -> tuple[Pair, ...]:
    """Return keyword arguments of values of JSON; those that are empty are left out."""
    return tuple(Pair(name, literal(one)) for name, one in values.items() if one not in (None, "", (), [], {}))


def flat(expr: Expr) -> str:
    """Return an expression on one line."""
    match expr:
        case Text(value):
            return quoted(value)
        case CallExpr(head, items, brackets):
            inner = ", ".join(flat(one) for one in items)
            alone = "," if not head and brackets == "()" and len(items) == 1 else ""
            return f"{head}{brackets[0]}{inner}{alone}{brackets[1]}"
        case Pair(name, value, sign):
            return f"{name}{sign}{flat(value)}"
        case Either(parts):
            return " | ".join(flat(one) for one in parts)
        case Later(of):
            return quoted(flat(of))
    return expr


def quoted(text: str) -> str:
    """Return a text as a literal, in the quotes that `ruff format` prefers."""
    # With both kinds of quotes in it, repr escapes the single ones alone.
    body = repr(text + "\"'")[1:-4].replace("\\'", "'")
    if body.count('"') > body.count("'"):
        return "'" + body.replace("'", "\\'") + "'"
    return '"' + body.replace('"', '\\"') + '"'


def names_in(expr: Expr | None) -> Iterator[str]:
    """Yield the names that an expression uses, without attributes."""
    match expr:
        case None | Text():
            return
        case CallExpr(head, items):
            yield from (head.partition(".")[0], *(name for one in items for name in names_in(one)))
        case Pair(_, value):
            yield from names_in(value)
        case Either(parts):
            yield from (name for one in parts for name in names_in(one))
        case Later(of):
            yield from names_in(of)
        case str():
            yield expr.partition(".")[0]
