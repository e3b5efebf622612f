"""Protobuf bodies: read into what their JSON would be, never written.

kubectl's imperative commands and client-go send them for built-in kinds, and do not try again in JSON. Zeros
that Go writes in any case are left in; the shapes of the kinds drop them.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/runtime/serializer/protobuf/protobuf.go;
protobuf.dev/programming-guides/encoding.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from kcr.apiserver.kinds.strategy import Manifest
from kcr.apiserver.protobuf.messages import MESSAGES, ROOTS

_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class UnknownMessageError(Exception):
    """The body has a kind or a field that no table here names; JSON would do."""


def decoded(body: bytes) -> Manifest:
    """Return the object in a body.

    Raises:
        UnknownMessageError: It is of a kind, or has a member, that cannot be read here.
        ValueError: It is no protobuf.
    """
    if not body.startswith(_MAGIC):
        raise ValueError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    envelope = _message("Unknown", body[len(_MAGIC) :])
    named = envelope.get("typeMeta", {})
    if named.get("kind") not in ROOTS:
        raise UnknownMessageError(f"kind {named.get('kind')}")
    return {**named, **_message(named["kind"], envelope.get("raw", b""))}


def _message(name: str, data: bytes) -> Manifest:
    members, found = MESSAGES[name], dict[str, Any]()
    for number, given in _fields(data):
        if number not in members:
            raise UnknownMessageError(f"field {number} of {name}")
        member, written = members[number]
        if member == "-":
            found.update(_message(written, _bytes(given)))
        elif written.startswith("[]"):
            found.setdefault(member, []).append(_value(written[2:], given))
        elif written.startswith("map[string]"):
            entry = dict(_fields(_bytes(given)))
            key = _bytes(entry.get(1, b"")).decode()
            found.setdefault(member, {})[key] = _value(written.removeprefix("map[string]"), entry.get(2, b""))
        elif written != "ignored":
            found[member] = _value(written, given)
    return found


def _value(kind: str, given: int | bytes) -> Any:
    match kind:
        case "bool":
            return bool(_integer(given))
        case "int":
            value = _integer(given)
            return value - (1 << 64) if value >> 63 else value
    data, leaf = _bytes(given), _LEAVES.get(kind)
    return _message(kind, data) if leaf is None else leaf(data)


def _int_or_string(data: bytes) -> int | str:
    parts = dict(_fields(data))
    if parts.get(1):
        return _bytes(parts.get(3, b"")).decode()
    return int(_value("int", parts.get(2, 0)))


def _moment(data: bytes) -> str | None:
    """Return a moment in whole seconds; an empty message is none."""
    parts = dict(_fields(data))
    if not parts:
        return None
    seconds = _value("int", parts.get(1, 0))
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError) as error:
        raise ValueError(f"proto: {seconds} s is no moment") from error
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


_LEAVES: Mapping[str, Callable[[bytes], Any]] = {
    "bytes": lambda data: b64encode(data).decode(),
    "intstr": _int_or_string,
    "quantity": lambda data: _message("Quantity", data).get("string", "0"),
    "raw": lambda data: data,
    "string": bytes.decode,
    "time": _moment,
}


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a message: their numbers, and numbers or bytes."""
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


def _integer(given: int | bytes) -> int:
    if isinstance(given, bytes):
        raise ValueError("proto: wrong wireType = 2 for a number")
    return given


def _bytes(given: int | bytes) -> bytes:
    if isinstance(given, int):
        raise ValueError("proto: wrong wireType = 0 for bytes")
    return given
