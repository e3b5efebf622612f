"""Field sets: which fields of an object a field manager owns.

A set is a tree of path elements, spelled as in fieldsV1: `f:name` is a field or the entry of a map, `k:{"name":"c"}`
the item of a list with map keys, `v:"x"` the item of a set, `i:0` an index. The element `.` says that the path it
stands at is a member itself. Sets are values: no function changes its arguments, and results may share parts with them.

Source: sigs.k8s.io/structured-merge-diff, fieldpath/{set,element,serialize}.go.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

FieldSet = dict[str, Any]

MEMBER = "."
LEAF: FieldSet = {MEMBER: {}}
_sorted_json = msgspec.json.Encoder(order="sorted").encode


def field_element(name: str) -> str:
    """Return the path element of a field, or of the entry of a map."""
    return f"f:{name}"


def key_element(keys: dict[str, Any]) -> str:
    """Return the path element of the item of a list, by the fields that identify it."""
    return f"k:{quoted(keys)}"


def value_element(value: Any) -> str:
    """Return the path element of the item of a set."""
    return f"v:{quoted(value)}"


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the paths that are in one of two sets."""
    if not one or not other:
        return one or other
    result = dict(one)
    for element, inner in other.items():
        result[element] = union(result[element], inner) if element in result else inner
    return result


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the paths of the first set that are not in the second; a path does not include those below it."""
    if not other:
        return one
    result: FieldSet = {}
    for element, inner in one.items():
        if element not in other:
            result[element] = inner
        elif element != MEMBER and (rest := difference(inner, other[element])):
            result[element] = rest
    return result


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the paths that are in both sets."""
    result: FieldSet = {}
    for element, inner in one.items():
        if element not in other:
            continue
        if element == MEMBER:
            result[element] = inner
        elif both := intersection(inner, other[element]):
            result[element] = both
    return result


def quoted(value: Any) -> str:
    """Return a value as JSON with its names in order, as in path elements and messages."""
    return _sorted_json(value).decode()


def paths(fields: FieldSet, prefix: str = "") -> Iterator[str]:
    """Yield the paths of a set as messages show them, such as `.spec.containers[name="c"].image`."""
    for element in sorted(fields):
        if element == MEMBER:
            yield prefix
        else:
            yield from paths(fields[element], prefix + shown(element))


def shown(element: str) -> str:
    """Return a path element as messages show it: `.spec`, `[name="c"]`, `[="x"]` or `[0]`."""
    match element[:2]:
        case "k:":
            keys = msgspec.json.decode(element[2:])
            named = (f"{name}={quoted(value)}" for name, value in keys.items())
            return f"[{','.join(named)}]"
        case "v:":
            return f"[={element[2:]}]"
        case "i:":
            return f"[{element[2:]}]"
    return f".{element[2:]}"


def encode(fields: FieldSet) -> FieldSet:
    """Return a set as fieldsV1 has it: a path with nothing below it is `{}`."""
    return {
        element: {} if inner == LEAF or element == MEMBER else encode(inner)
        for element, inner in sorted(fields.items())
    }


def decode(fields_v1: object) -> FieldSet:
    """Return the set that a fieldsV1 stands for.

    Raises:
        ValueError: The value is no fieldsV1.
    """
    if not isinstance(fields_v1, dict):
        raise ValueError("fieldsV1 is no object")
    result: FieldSet = {}
    for element, inner in fields_v1.items():
        if element == MEMBER:
            result[MEMBER] = {}
        else:
            result[_canonical(element)] = decode(inner) or LEAF
    return result


def _canonical(element: str) -> str:
    """Return a path element in the one spelling that it has here."""
    kind, colon, rest = element.partition(":")
    if not colon or kind not in ("f", "k", "v", "i"):
        raise ValueError(f"{element} is no path element")
    if kind == "f":
        return element
    value = msgspec.json.decode(rest)
    if kind == "k" and not isinstance(value, dict):
        raise ValueError(f"{element} is no key")
    return f"{kind}:{quoted(value)}"
