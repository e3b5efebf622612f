"""Bytes to values and back. Decoders are made once per type and kept.

Whatever is wrong with the bytes, the `decode` functions raise `msgspec.DecodeError` and nothing else: a caller
that sets undecodable objects apart has one exception to catch.
"""

import sys
import threading
from collections.abc import Callable, Mapping
from functools import cache, wraps
from math import isfinite
from typing import Any, Generic, ParamSpec, TypeVar

import msgspec
from msgspec import inspect

from kcr.annotations import shown
from kcr.api import equality
from kcr.api.meta import FullResource, ListMeta, Object, Resource, Status, from_wire, to_wire
from kcr.api.unstructured import RawFields, Unstructured

R = TypeVar("R", bound=Resource)
T = TypeVar("T")
P = ParamSpec("P")

# Go's decoder accepts 10,000 levels of nesting; a list or a watch event wraps an object in a few more.
_MAX_DEPTH = 10_000 + 100


class WatchEvent(Object, Generic[R]):
    """One line of a watch. With `type` `ERROR` the object is a Status instead of an object of the kind."""

    type: str
    object: R


class Items(Object, Generic[R]):
    """One page of a list. `items` is required: an answer without it is not a list, and must not empty a store."""

    metadata: ListMeta = ListMeta()
    items: tuple[R, ...] | None


class _ErrorEvent(Object):
    object: Status


_encoder = msgspec.json.Encoder(enc_hook=to_wire)


@cache
def decoder(wanted: Any) -> msgspec.json.Decoder[Any]:
    """Return the one decoder of a type."""
    return msgspec.json.Decoder(wanted, dec_hook=from_wire)


def _raises_decode_error_only(around: Any = None) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a decoding function raise only DecodeError, and accept nesting as deep as Go does.

    msgspec raises RecursionError beyond the interpreter's limit, UnicodeDecodeError for bytes that are not UTF-8
    (since 0.23 DecodeError), and whatever a user's `__post_init__` raises. The limit is raised for one decoding at
    a time and not for the process: on Python 3.11 a runaway recursion of other code would overflow the C stack
    before it met a limit as high as this. From 3.12 on, C code has a limit of its own that no program can raise
    (3.13: 10,000 levels).

    Args:
        around: The generic type around the kind that the function decodes, None for none.
    """

    def decorator(read: Any) -> Any:
        @wraps(read)
        def guarded(kind: type, data: bytes) -> Any:
            try:
                return read(kind, data)
            except msgspec.ValidationError as error:
                # Servers write null for some lists and maps that are empty; a type that is not complete says nothing.
                if not issubclass(kind, FullResource) or issubclass(kind, Unstructured):
                    raise
                return guarded(kind, _without_nulls(data, kind if around is None else around[kind], error))
            except msgspec.DecodeError:
                raise
            except RecursionError:
                return _with_deep_recursion(lambda: read(kind, data))
            except UnicodeDecodeError:
                raise msgspec.DecodeError("Invalid UTF-8 encoded string") from None
            except Exception as error:
                raise msgspec.ValidationError(f"{type(error).__name__}: {error}") from error

        return guarded

    return decorator


def _without_nulls(data: bytes, kind: Any, error: msgspec.ValidationError) -> bytes:
    """Return the bytes without nulls in fields that have no null, like Go's decoder.

    Raises:
        msgspec.ValidationError: There is no such null: the error is about something else.

    Source: Go's encoding/json, Unmarshal.
    """
    try:
        value = msgspec.json.decode(data)
        has_nulls = _drop_nulls(value, _type_info(kind))
        kept = msgspec.json.encode(value)
    except Exception:
        # The text after the null is not JSON, or is nested deeper than the values of Python.
        raise error from None
    if not has_nulls:
        raise error
    return kept


@cache
def _type_info(kind: Any) -> inspect.Type:
    return inspect.type_info(kind)


def _drop_nulls(value: Any, kind: inspect.Type) -> bool:
    """Drop from a value the null fields whose type takes no null, and return whether there were any."""
    # The type decides, and not the message of the error. Opaque values (`Raw`, `Any`) keep their nulls.
    match kind:
        case inspect.StructType(fields=known) if isinstance(value, dict):
            refused = [
                one.encode_name for one in known if _is_null(value, one.encode_name) and not _takes_null(one.type)
            ]
            for name in refused:
                del value[name]
            inner = [(value.get(one.encode_name), one.type) for one in known]
        case inspect.DictType(value_type=entry) if isinstance(value, dict):
            # Go reads a null entry as the zero value: of texts and of bytes, the empty one.
            is_text = isinstance(entry, inspect.StrType | inspect.BytesType)
            refused = [name for name in value if is_text and value[name] is None]
            value |= dict.fromkeys(refused, "")
            inner = [(one, entry) for one in value.values()]
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item) if isinstance(value, list):
            refused, inner = [], [(one, item) for one in value]
        case inspect.UnionType(types=types):
            refused, inner = [], [(value, one) for one in types]
        case _:
            return False
    # A sum, for `any` would stop at the first.
    return sum(_drop_nulls(one, wanted) for one, wanted in inner) + len(refused) > 0


def _is_null(value: Mapping[str, Any], name: str) -> bool:
    return value.get(name, "") is None


def _takes_null(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.UnionType):
        return kind.includes_none
    return isinstance(kind, inspect.AnyType | inspect.NoneType | inspect.RawType | inspect.CustomType)


class _DeepRecursion:
    """The raised limit of recursion, which the threads share: the last one out restores it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._limit = 0

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._limit = sys.getrecursionlimit()
                sys.setrecursionlimit(max(self._limit, _MAX_DEPTH + 1000))
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                sys.setrecursionlimit(self._limit)


_deep_recursion = _DeepRecursion()


def _with_deep_recursion(read: Callable[[], T]) -> T:
    try:
        with _deep_recursion:
            return read()
    except RecursionError as error:
        raise msgspec.ValidationError("nested too deep for this Python") from error
    except msgspec.DecodeError:
        raise
    except Exception as error:
        raise msgspec.ValidationError(f"{type(error).__name__}: {error}") from error


@_raises_decode_error_only()
def decode(kind: type[T], data: bytes) -> T:
    """Decode one value.

    Raises:
        msgspec.DecodeError: The bytes are not JSON, or do not fit the type; the message has the path.
    """
    read, own = _reader(kind)  # type: ignore[arg-type]  # a type is hashable
    value: T = read(data)
    return value if own is None else own(value)


@_raises_decode_error_only(Items)
def decode_items(kind: type[R], data: bytes) -> tuple[ListMeta, tuple[R, ...]]:
    """Decode one page of a list, and return its metadata and its objects."""
    read, own = _reader(kind, Items)
    page = read(data)
    items = page.items or ()
    return page.metadata, items if own is None else tuple(map(own, items))


@_raises_decode_error_only(WatchEvent)
def decode_event(kind: type[R], line: bytes) -> WatchEvent[R]:
    """Decode one line of a watch; see `WatchEvent` about errors."""
    read, own = _reader(kind, WatchEvent)
    event: WatchEvent[R] = read(line)
    return event if own is None else WatchEvent(type=event.type, object=own(event.object))


@cache
def _reader(kind: Any, around: Any = None) -> tuple[Callable[[bytes], Any], Callable[[Any], Any] | None]:
    """Return what decodes a kind, and what then frees an object of it of the bytes it came in; None for nothing.

    Kept, because even naming a generic type takes longer than a small event.
    """
    is_plain = not issubclass(kind, Unstructured)
    form = kind if is_plain else RawFields
    read = decoder(form if around is None else around[form]).decode
    if not is_plain:
        return read, kind.from_fields
    has_own = issubclass(kind, Resource) and kind.detached is not Resource.detached
    return read, kind.detached if has_own else None


def decode_error_event(line: bytes) -> Status:
    """Decode the Status that a watch event of type ERROR carries."""
    event: _ErrorEvent = decode(_ErrorEvent, line)
    return event.object


def encode(value: object) -> bytes:
    """Encode a value. A resource carries its apiVersion and kind.

    Raises:
        TypeError: It has a value that JSON does not have, or a Secret a text for bytes; the message names the field.
        ValueError: It has a number that JSON does not have, or a text that is not Unicode.
    """
    whole = value
    if isinstance(value, Unstructured):
        whole = {"metadata": value.metadata, **{name: msgspec.Raw(raw) for name, raw in value.fields.items()}}
    try:
        data = _encoder.encode(whole)
    except Exception:
        _refuse_unwritable(whole)
        raise
    is_shipped = isinstance(value, Resource) and value.__module__.startswith("kcr.")
    # Also what msgspec makes of NaN and infinity; kinds of kcr have no such numbers.
    if not is_shipped and b"null" in data:
        _refuse_unwritable(whole)
    if not isinstance(value, Resource):
        return data
    if is_shipped and value.resource.kind == "Secret":
        _refuse_texts(value)
    head = f'{{"apiVersion":"{value.resource.api_version}","kind":"{value.resource.kind}"'.encode()
    return head + (b"," + data[1:] if len(data) > 2 else b"}")


def _refuse_texts(secret: Any) -> None:
    # The server reads a text as base64, and where it happens to be that it stores other bytes.
    for name, one in getattr(secret, "data", {}).items():
        if isinstance(one, str):
            raise TypeError(f"Secret {secret.key}: data[{name!r}] is a text: give it bytes, or put it into string_data")


def _refuse_unwritable(value: Any, path: str = "") -> None:
    """Raise TypeError or ValueError for the first part of a value that JSON does not have."""
    parts: Any = ()
    match value:
        case Mapping():
            parts = value.items()
        case msgspec.Struct():
            parts = zip(value.__struct_encode_fields__, msgspec.structs.astuple(value), strict=True)
        case list() | tuple():
            parts = enumerate(value)
        case _ if value is not msgspec.UNSET:
            error: type[Exception] | None = None
            try:
                if isinstance(value, float) and not isfinite(value):
                    error = ValueError
                _encoder.encode(value)
            except Exception as failure:
                error = ValueError if isinstance(failure, ValueError) else TypeError
            if error is not None:
                raise error(f"{path.lstrip('.') or 'the value'} is {shown(value)}: give it a value that JSON has")
    for name, one in parts:
        if one is None or isinstance(one, int) or (isinstance(one, str) and one.isascii()):
            continue
        _refuse_unwritable(one, f"{path}[{name}]" if isinstance(name, int) else f"{path}.{name}")


def difference(old: object, new: object) -> Any:
    """Return the JSON merge patch that turns `old` into `new`, or None when they are the same.

    Compared field by field, so that a zero differs from an absence, and values with their types, so that true differs
    from 1. Fields that `new` lacks become null; sequences are replaced whole.

    Source: RFC 7396.
    """
    if isinstance(old, Unstructured) and isinstance(new, Unstructured):
        metadata = equality.difference(old.metadata, new.metadata)
        return {**({"metadata": metadata} if metadata else {}), **new.fields_unlike(old)} or None
    if isinstance(new, FullResource) and new.resource.kind == "Secret":
        _refuse_texts(new)
    return equality.difference(old, new)
