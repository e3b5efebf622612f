"""When two values are the same JSON, and the merge patch that leads from one to another.

To Python, true is equal to 1, and 1 to 1.0; to JSON and to the API server they are three values. So `==` alone never
decides what is sent, stored or shared.

Source: RFC 8259; RFC 7396.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from itertools import compress
from operator import is_not
from types import EllipsisType, NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo, astuple, fields

from kcr.api.meta import Object, to_wire

_ABSENT: Any = msgspec.UNSET
_NUMBERS = frozenset({bool, int, float})
# Equal values of these types are the same JSON, or the same moment or duration.
_EXACT = (str, bytes, datetime, timedelta, Enum, NoneType, EllipsisType, msgspec.Raw, msgspec.UnsetType)

_encode = msgspec.json.Encoder(enc_hook=to_wire, order="deterministic").encode


def same_json(one: object, other: object, *, decoded: bool = False) -> bool:
    """Return whether two values are equal, and the same JSON at every depth.

    Moments and durations are compared as such, and so are the numbers of a field that is declared `float`: 1 and 1.0
    are read back as one value there. In `Any`, and in unions of numbers, they are two.

    Args:
        one: A value.
        other: Another.
        decoded: Whether both were decoded by their types: then a field that is declared `int` holds no boolean.
    """
    if one is other:
        return True
    if one != other:
        return False
    visited = _open_fields if decoded else _number_fields
    # A list of the pairs to come instead of a recursion: objects are nested deeper than Python's stack is.
    left: list[tuple[Any, Any]] = [(one, other)]
    while left:
        mine, theirs = left.pop()
        if mine is theirs or type(mine) is str:
            continue
        if isinstance(mine, msgspec.Struct):
            left += [(getattr(mine, name), getattr(theirs, name)) for name in visited(type(mine))]
        elif isinstance(mine, list | tuple):
            left += zip(mine, theirs, strict=True)
        elif type(mine) is dict or isinstance(mine, Mapping):
            if _key_types(mine) != _key_types(theirs):
                return False
            left += [(value, theirs[key]) for key, value in mine.items()]
        elif _number_type(mine) is not _number_type(theirs):
            return False
    return True


def _key_types(value: Mapping[Any, Any]) -> object:
    """Return what tells the keys of equal maps apart; None for texts, which need nothing else."""
    if all(type(key) is str for key in value):
        return None
    return {(key, _number_type(key)) for key in value}


def _number_type(value: object) -> type | None:
    return next((kind for kind in (bool, int, float) if isinstance(value, kind)), None)


@cache
def exact_fields(kind: type[msgspec.Struct]) -> frozenset[str]:
    """Return the fields of a type whose equal decoded values are the same JSON, because nothing in them is `Any`."""
    return frozenset(kind.__struct_fields__).difference(_open_fields(kind))


@cache
def _open_fields(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(name for name, leaves in _field_types(kind).items() if not _are_exact(leaves, most=1))


@cache
def _number_fields(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the fields of a type that hold numbers, but those that are declared `float`."""
    return tuple(name for name, leaves in _field_types(kind).items() if not _are_exact(leaves, most=0))


@cache
def _field_types(kind: type[msgspec.Struct]) -> Mapping[str, frozenset[Any]]:
    return {field.name: frozenset(_leaves(field.type)) for field in fields(kind)}


def _are_exact(leaves: frozenset[Any], most: int) -> bool:
    """Return whether types, and all structs that they lead to, have at most so many types of number in one place."""
    left, seen = [leaves], set[type]()
    while left:
        leaves = left.pop()
        structs = {leaf for leaf in leaves if isinstance(leaf, type) and issubclass(leaf, msgspec.Struct)}
        others = leaves - structs
        numbers = others & _NUMBERS
        if (len(numbers) > most and numbers != {float}) or not all(_is_exact(leaf) for leaf in others - numbers):
            return False
        left += [inner for struct in structs - seen for inner in _field_types(struct).values()]
        seen |= structs
    return True


def _is_exact(leaf: Any) -> bool:
    return isinstance(leaf, type) and issubclass(leaf, _EXACT)


def _leaves(annotation: Any) -> Iterator[Any]:
    """Yield the types of which a type is made: for `Mapping[str, int | None]`, str, int and None."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        yield from map(type, inner)
    elif origin is Annotated:
        yield from _leaves(inner[0])
    elif not inner or (isinstance(origin, type) and issubclass(origin, msgspec.Struct)):
        yield EllipsisType if annotation is ... else annotation
    else:
        for one in inner:
            yield from _leaves(one)


def difference(old: object, new: object) -> Any:
    """Return the JSON merge patch that turns `old` into `new`, or None when they are the same.

    Compared field by field, so that a zero differs from an absence. Fields that `new` lacks become
    null; sequences are replaced whole.

    Source: RFC 7396.
    """
    if same_json(old, new):
        return None
    if isinstance(old, Object) and isinstance(new, Object):
        wanted: Iterable[FieldInfo] = _wire_fields(type(new))
        if type(old) is type(new):
            # Most fields are the same object in both: they take no instruction here.
            wanted = compress(wanted, map(is_not, astuple(old), astuple(new)))
        pairs = [(field.encode_name, _said(field, old), _said(field, new)) for field in wanted]
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        was, now = _text_keys(old), _text_keys(new)
        pairs = [(name, was.get(name, _ABSENT), now.get(name, _ABSENT)) for name in {**was, **now}]
    elif isinstance(old, list | tuple) and isinstance(new, list | tuple) and _stored(old) == _stored(new):
        return None
    else:
        return new
    patch: dict[str, Any] = {}
    for name, before, after in pairs:
        if after is None or after is _ABSENT:
            # A merge patch has no other word for null than the one that removes.
            if before is not _ABSENT and before is not after:
                patch[name] = None
        elif (inner := difference(before, after)) is not None:
            patch[name] = inner
    return patch or None


def _stored(value: object) -> bytes:
    """Return the JSON of a list as API servers store it: without members that are null, at any depth."""
    encoded = _encode(value)
    return _encode(_without_nulls(msgspec.json.decode(encoded))) if b"null" in encoded else encoded


def _without_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return value


@cache
def _wire_fields(kind: type[Object]) -> tuple[FieldInfo, ...]:
    return fields(kind)


def _said(field: FieldInfo, value: Object) -> object:
    """Return a value's field, or absence if its wire form omits the field."""
    said = getattr(value, field.name)
    left_out = said == field.default or (field.default_factory in (dict, list) and not said)
    return _ABSENT if left_out else said


def _text_keys(value: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return a map with its keys as JSON has them; those that it cannot have stay, and the encoder names them."""
    return {str(key) if type(key) in (int, float) else key: one for key, one in value.items()}
