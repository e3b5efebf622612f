"""Decoder of protobuf bodies: a body is decoded into the value of the equivalent JSON.

kubectl's imperative commands and client-go send protobuf for built-in kinds, and do not retry in JSON. The schema says
which field has which number, and of which type it is. Fields of other numbers, which newer clients send, are ignored as
Go ignores them; types without numbers are refused. Zero values that Go always encodes are kept; the shapes of the kinds
drop them.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/runtime/serializer/protobuf/protobuf.go;
protobuf.dev/programming-guides/encoding.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from struct import unpack
from typing import Any

from kcr_devcluster.apiserver.protocol.gojson import decode_json
from kcr_devcluster.apiserver.schema.builtin import SCHEMA_OR_ARRAY, SCHEMA_OR_BOOL, SCHEMA_OR_STRINGS, encoded_shape
from kcr_devcluster.apiserver.schema.scalars import ANY, SCALARS
from kcr_devcluster.apiserver.schema.shape import Shape, Type
from kcr_devcluster.apiserver.schema.times import in_utc
from kcr_devcluster.go_numbers import as_go_writes

# The first bytes of every body.
MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
# The envelope, runtime.Unknown: the type of the object and its message.
_TYPE_META, _RAW = 1, 2
_API_VERSION, _KIND = 1, 2


class UnknownMessageError(Exception):
    """The body has a kind or a type without numbers in the schema; JSON can be decoded."""


def decode(body: bytes) -> dict[str, Any]:
    """Return the object in a body.

    Raises:
        UnknownMessageError: Its kind, or the type of one of its fields, cannot be decoded here.
        ValueError: It is no protobuf.
    """
    if not body.startswith(MAGIC):
        raise ValueError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    envelope = dict(read_fields(body[len(MAGIC) :]))
    names = dict(read_fields(_bytes(envelope.get(_TYPE_META, b""))))
    api_version, kind = (_bytes(names.get(number, b"")).decode() for number in (_API_VERSION, _KIND))
    shape = encoded_shape(api_version, kind)
    if shape is None:
        raise UnknownMessageError(f"kind {kind!r} of {api_version!r}")
    return {"apiVersion": api_version, "kind": kind, **_message(shape, _bytes(envelope.get(_RAW, b"")))}


def _message(shape: Shape, data: bytes, outer: tuple[int, ...] = ()) -> dict[str, Any]:
    """Return the fields of a message; those of embedded messages stand among them, as in JSON."""
    if not shape.numbers and shape.fields:
        raise UnknownMessageError(f"type {shape.name}")
    found: dict[str, Any] = {}
    for number, given in read_fields(data):
        path = (*outer, number)
        name = shape.numbers.get(path)
        if name is None:
            continue
        of = shape.fields[name].type if name else ANY
        if not name:
            found.update(_message(shape, _bytes(given), path))
        elif of.items is None:
            found[name] = _value(of, given)
        elif of.zero is list:
            found.setdefault(name, []).append(_value(of.items, given))
        else:
            entry = dict(read_fields(_bytes(given)))
            key = _bytes(entry.get(1, b"")).decode()
            found.setdefault(name, {})[key] = _value(of.items, entry.get(2, b""))
    return found


def _value(of: Type, given: int | bytes) -> Any:
    if of.shape is not None:
        union = _UNIONS.get(of.name)
        return _message(of.shape, _bytes(given)) if union is None else union(of.shape, _bytes(given))
    if of.items is not None:
        # Lists in maps are messages with one repeated field.
        return [_value(of.items, item) for _, item in read_fields(_bytes(given))]
    return _SCALARS[of](given)


def _schema_or_bool(schema: Shape, given: bytes) -> Any:
    parts = dict(read_fields(given))
    return _message(schema, _bytes(parts[2])) if 2 in parts else bool(parts.get(1))


def _schema_or_list(decode_item: Callable[[Shape, bytes], Any]) -> Callable[[Shape, bytes], Any]:
    """Return the decoder of a schema, number 1, or a list, number 2."""

    def decode(schema: Shape, given: bytes) -> Any:
        parts = [(number, _bytes(part)) for number, part in read_fields(given)]
        items = [decode_item(schema, part) for number, part in parts if number == 2]
        return items or _message(schema, dict(parts).get(1, b""))

    return decode


# Types that have a message in protobuf, but not in JSON: a schema, or a value of another type.
_UNIONS: Mapping[str, Callable[[Shape, bytes], Any]] = {
    SCHEMA_OR_BOOL: _schema_or_bool,
    SCHEMA_OR_ARRAY: _schema_or_list(_message),
    SCHEMA_OR_STRINGS: _schema_or_list(lambda _, part: part.decode()),
}


def _integer(given: int | bytes) -> int:
    if isinstance(given, bytes):
        raise ValueError("proto: wrong wireType = 2 for a number")
    return given - (1 << 64) if given >> 63 else given


def _bytes(given: int | bytes) -> bytes:
    if isinstance(given, int):
        raise ValueError("proto: wrong wireType = 0 for bytes")
    return given


def _text(given: int | bytes) -> str:
    return _bytes(given).decode()


def _json(given: int | bytes) -> Any:
    """Return the value that a RawExtension or FieldsV1 carries as JSON."""
    raw = dict(read_fields(_bytes(given))).get(1)
    return {} if raw is None else decode_json(_bytes(raw))


def _int_or_string(given: int | bytes) -> int | str:
    parts = dict(read_fields(_bytes(given)))
    return _text(parts.get(3, b"")) if parts.get(1) else _integer(parts.get(2, 0))


def _float(given: int | bytes) -> int | float:
    (number,) = unpack("<d", _bytes(given))
    return as_go_writes(number)


def _quantity(given: int | bytes) -> str:
    return _text(dict(read_fields(_bytes(given))).get(1, b"")) or "0"


def _time(timespec: str) -> Callable[[int | bytes], str | None]:
    def decode(given: int | bytes) -> str | None:
        parts = dict(read_fields(_bytes(given)))
        if not parts:
            return None
        seconds, nanoseconds = (_integer(parts.get(number, 0)) for number in (1, 2))
        try:
            moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanoseconds // 1000)
        except (OverflowError, OSError, ValueError) as error:
            raise ValueError(f"proto: {seconds} s is no moment") from error
        return in_utc(moment, timespec)

    return decode


_SCALARS: Mapping[Type, Callable[[int | bytes], Any]] = {
    SCALARS[name]: decode_scalar
    for name, decode_scalar in {
        "amount": _quantity,
        "any": _json,
        "json": _json,
        "bool": lambda given: bool(_integer(given)),
        "bytes": lambda given: b64encode(_bytes(given)).decode(),
        "float64": _float,
        "int-or-string": _int_or_string,
        "int32": _integer,
        "int64": _integer,
        "microtime": _time("microseconds"),
        "quantity": _quantity,
        "string": _text,
        "time": _time("seconds"),
    }.items()
}


def read_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a message: their numbers, and integers or bytes."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(wire)
        if wire == _BYTES:
            size, position = _varint(data, position)
        if size is None:
            raise ValueError(f"proto: illegal wireType {wire}")
        if position + size > len(data):
            raise ValueError("unexpected EOF")
        yield number, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise ValueError("unexpected EOF")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, position
    raise ValueError("proto: integer overflow")
