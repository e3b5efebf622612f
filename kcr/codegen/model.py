"""Classes to be written, as values: their fields, and expressions of annotations and defaults."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Union

# Names, numbers and the like, as they are written.
Atom = str


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
        text: What it is for, in paragraphs; may be empty.
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
        text: What it is, in paragraphs; may be empty.
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
