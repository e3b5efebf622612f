"""Encoder of protobuf bodies: encodes the JSON form of an object by the numbers in the schema, as the decoder reads it.

The fields that the JSON has are written, in the order of their numbers, and the entries of maps in the order of their
keys. Go writes scalars that it holds by value even when they are zero; here they are left out with their JSON, and read
back as the same zero. As in Go's protobuf, empty lists and maps are lost, and so are kind and apiVersion of an
object within another one.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/runtime/serializer/protobuf/protobuf.go, generated.pb.go of each
API group, pkg/util/framer/framer.go; protobuf.dev/programming-guides/encoding.
"""

from binascii import a2b_base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import groupby
from struct import pack
from typing import Any, NamedTuple

import msgspec

from kcr_devcluster.apiserver.schema.builtin import SCHEMA_OR_ARRAY, SCHEMA_OR_BOOL, SCHEMA_OR_STRINGS, encoded_shape
from kcr_devcluster.apiserver.schema.protobuf import MAGIC, UnknownMessageError
from kcr_devcluster.apiserver.schema.scalars import SCALARS
from kcr_devcluster.apiserver.schema.shape import Shape, Type

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TYPE_META = ("apiVersion", "kind")
_FRAME_LENGTH_BYTES = 4
# The numbers that take one byte: most tags and lengths.
_SMALL = [bytes([number]) for number in range(0x80)]

_UNIONS = (SCHEMA_OR_ARRAY, SCHEMA_OR_BOOL, SCHEMA_OR_STRINGS)
_TIMES = (SCALARS["time"], SCALARS["microtime"])

# Returns a value as a field; as none for an empty list or map.
_Encode = Callable[[Any], bytes]


class _Plan(NamedTuple):
    """How the fields of a shape are written.

    Attributes:
        fields: Per field its number, behind those of the embedded messages that it lies in, and its encoder.
        nullable: The numbers of times; null is a time that is not set, of all else it is nothing.
        flat: Whether there are no embedded messages.
    """

    fields: Mapping[str, tuple[tuple[int, ...], _Encode]]
    nullable: frozenset[tuple[int, ...]]
    flat: bool


def is_encodable(api_version: str, kind: str) -> bool:
    """Return whether the objects of a kind have a form in protobuf."""
    shape = encoded_shape(api_version, kind)
    return shape is not None and bool(shape.numbers)


def encode(obj: Mapping[str, Any]) -> bytes:
    """Return the body with an object: its message in the envelope, runtime.Unknown.

    Args:
        obj: The object as in JSON, with kind and apiVersion.

    Raises:
        UnknownMessageError: Its kind, or one of its fields, has no number.
    """
    api_version, kind = obj.get("apiVersion", ""), obj.get("kind", "")
    if not is_encodable(api_version, kind):
        raise UnknownMessageError(f"kind {kind}")
    shape = encoded_shape(api_version, kind)
    assert shape is not None  # it is encodable
    type_meta = _text(1)(api_version) + _text(2)(kind)
    # contentEncoding and contentType, empty as Go writes them.
    return (
        MAGIC
        + write_bytes(1, type_meta)
        + write_bytes(2, _message(shape, obj))
        + write_bytes(3, b"")
        + write_bytes(4, b"")
    )


def encode_event(event: Mapping[str, Any]) -> bytes:
    """Return the frame of a watch event: its length, then a WatchEvent without envelope around the object's body.

    Args:
        event: The event as in JSON, with type and object.

    Raises:
        UnknownMessageError: The object has no form in protobuf.
    """
    data = _text(1)(event["type"]) + write_bytes(2, write_bytes(1, encode(event["object"])))
    return len(data).to_bytes(_FRAME_LENGTH_BYTES, "big") + data


def _message(shape: Shape, value: Mapping[str, Any]) -> bytes:
    plan = _plan(shape)
    found: list[tuple[tuple[int, ...], bytes]] = []
    for name, given in value.items():
        known = plan.fields.get(name)
        if known is not None:
            number, encode_field = known
            if given is not None or number in plan.nullable:
                found.append((number, encode_field(given)))
        elif name not in _TYPE_META:
            raise UnknownMessageError(f"field {name} of {shape.name}")
    found.sort()
    return b"".join(data for _, data in found) if plan.flat else _nested(found, 0)


def _nested(found: Sequence[tuple[tuple[int, ...], bytes]], depth: int) -> bytes:
    """Return fields, those of embedded messages within their messages."""
    parts = []
    for number, group in groupby(found, key=lambda field: field[0][depth]):
        inner = list(group)
        is_field = len(inner[0][0]) == depth + 1
        parts.append(inner[0][1] if is_field else write_bytes(number, _nested(inner, depth + 1)))
    return b"".join(parts)


@cache
def _plan(shape: Shape) -> _Plan:
    numbered = {name: field for name, field in shape.fields.items() if field.number}
    fields = {name: (field.number, _encoder(field.type, field.number[-1])) for name, field in numbered.items()}
    nullable = frozenset(field.number for field in numbered.values() if field.type in _TIMES)
    return _Plan(fields, nullable, flat=all(len(field.number) == 1 for field in numbered.values()))


def _encoder(of: Type, number: int) -> _Encode:
    """Return the encoder of values of a type as fields of a number."""
    if of.shape is not None:
        shape = of.shape
        if of.name in _UNIONS:
            return lambda value: write_bytes(number, _union(of.name, shape, value))
        return lambda value: write_bytes(number, _message(shape, value))
    if of.items is None:
        return _SCALARS[of](number)
    if of.zero is list:
        item = _encoder(of.items, number)
        return lambda value: b"".join(map(item, value))
    return _map(of.items, number)


def _union(name: str, schema: Shape, value: Any) -> bytes:
    """Return the message of a schema or of a value of another type; a schema has number 1 (with a flag: 2)."""
    if isinstance(value, bool):
        return _integer(1)(value)
    if name == SCHEMA_OR_BOOL:
        return _integer(1)(True) + write_bytes(2, _message(schema, value))
    if isinstance(value, list):
        return b"".join(
            write_bytes(2, one.encode() if isinstance(one, str) else _message(schema, one)) for one in value
        )
    return write_bytes(1, _message(schema, value))


def _map(of: Type, number: int) -> _Encode:
    key = _text(1)
    # Lists in maps are messages with one repeated field.
    in_message = of.items is not None
    value = _encoder(of, 1 if in_message else 2)

    def entries(given: Mapping[str, Any]) -> Iterator[bytes]:
        for name in sorted(given):
            data = value(given[name])
            yield write_bytes(number, key(name) + (write_bytes(2, data) if in_message else data))

    return lambda given: b"".join(entries(given))


def write_varint(value: int) -> bytes:
    """Return an integer in the variable-length form."""
    if 0 <= value < len(_SMALL):
        return _SMALL[value]
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_bytes(number: int, data: bytes) -> bytes:
    """Return a field whose value has a length: a text or a message."""
    return write_varint(number << 3 | 2) + write_varint(len(data)) + data


def _text(number: int) -> _Encode:
    return lambda value: write_bytes(number, value.encode())


def _integer(number: int) -> _Encode:
    tag = write_varint(number << 3)
    return lambda value: tag + write_varint(value)


def _float(number: int) -> _Encode:
    tag = write_varint(number << 3 | 1)
    return lambda value: tag + pack("<d", value)


def _base64(number: int) -> _Encode:
    return lambda value: write_bytes(number, a2b_base64(value))


def _json(number: int) -> _Encode:
    """RawExtension and FieldsV1: JSON in a field of its own."""
    return lambda value: write_bytes(number, write_bytes(1, msgspec.json.encode(value)))


def _int_or_string(number: int) -> _Encode:
    kind, integer, text = _integer(1), _integer(2), _text(3)

    def encode(value: int | str) -> bytes:
        parts = (1, 0, value) if isinstance(value, str) else (0, value, "")
        return write_bytes(number, kind(parts[0]) + integer(parts[1]) + text(parts[2]))

    return encode


def _quantity(number: int) -> _Encode:
    text = _text(1)
    return lambda value: write_bytes(number, text(value))


def _time(number: int) -> _Encode:
    seconds, nanoseconds = _integer(1), _integer(2)

    def encode(value: str | None) -> bytes:
        if value is None:
            return write_bytes(number, b"")
        since = datetime.fromisoformat(value) - _EPOCH
        whole, rest = since // timedelta(seconds=1), since.microseconds
        return write_bytes(number, seconds(whole) + nanoseconds(rest * 1000))

    return encode


_SCALARS: Mapping[Type, Callable[[int], _Encode]] = {
    SCALARS[name]: make
    for name, make in {
        "amount": _quantity,
        "any": _json,
        "json": _json,
        "bool": _integer,
        "bytes": _base64,
        "float64": _float,
        "int-or-string": _int_or_string,
        "int32": _integer,
        "int64": _integer,
        "microtime": _time,
        "quantity": _quantity,
        "string": _text,
        "time": _time,
    }.items()
}
