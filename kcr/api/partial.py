"""Decoding of objects that lack required fields: those get the zero values that Go gives them.

For server-side apply, the API server converts parts of objects between versions: the fields of one manager, say.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec.structs import fields

from kcr.api.codec import decoder

T = TypeVar("T")

_ZEROS: Mapping[Any, Any] = {
    str: "", bytes: b"", int: 0, float: 0.0, bool: False, tuple: (), dict: {}, Any: None,
    datetime: datetime(1, 1, 1, tzinfo=UTC),
}  # fmt: skip


def decode_partial(kind: type[T], data: bytes) -> T:
    """Return a value whose required fields may be missing in the JSON; a zero value is not validated.

    Raises:
        msgspec.DecodeError: A field does not fit its type, or a missing one has no zero value.
    """
    try:
        found: T = _decoded(kind, data)
    except msgspec.DecodeError:
        raise
    except Exception as error:
        # Of a `__post_init__`, say, that takes no zero values.
        raise msgspec.ValidationError(f"{type(error).__name__}: {error}") from error
    return found


class _Type(NamedTuple):
    """A type without annotations and None: `plain` is a class, `tuple`, or a mapping of `items`."""

    plain: Any
    items: Any
    has_null: bool


def _type_of(kind: Any) -> _Type:
    if get_origin(kind) is Annotated:
        return _type_of(get_args(kind)[0])
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType) and NoneType in arguments:
        (plain, items, _) = _type_of(next(one for one in arguments if one is not NoneType))
        return _Type(plain, items, has_null=True)
    if origin is tuple and arguments[-1] is Ellipsis:
        return _Type(tuple, arguments[0], has_null=False)
    if origin in (dict, Mapping):
        return _Type(dict, arguments[1], has_null=False)
    return _Type(str if origin is Literal else kind, None, has_null=False)


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _decoded(kind: Any, data: bytes) -> Any:
    wanted = _type_of(kind)
    if data == b"null":
        return decoder(kind).decode(data)
    if _is_struct(wanted.plain):
        given = decoder(dict[str, msgspec.Raw]).decode(data)
        found = {}
        for one in fields(wanted.plain):
            if one.encode_name in given:
                found[one.name] = _decoded(one.type, bytes(given[one.encode_name]))
            elif one.required:
                found[one.name] = _zero(one.type, one.encode_name)
        return wanted.plain(**found)
    if wanted.plain is tuple:
        return tuple(_decoded(wanted.items, bytes(one)) for one in decoder(list[msgspec.Raw]).decode(data))
    if wanted.plain is dict:
        members = decoder(dict[str, msgspec.Raw]).decode(data)
        return {name: _decoded(wanted.items, bytes(one)) for name, one in members.items()}
    return decoder(kind).decode(data)


def _zero(kind: Any, name: str) -> Any:
    wanted = _type_of(kind)
    if wanted.has_null:
        return None
    if _is_struct(wanted.plain):
        return _decoded(wanted.plain, b"{}")
    if wanted.plain not in _ZEROS:
        raise msgspec.ValidationError(f"Object missing required field `{name}`")
    return _ZEROS[wanted.plain]
