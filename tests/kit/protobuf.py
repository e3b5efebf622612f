"""Protobuf as Go's clients write it, as far as tests need it."""

from typing import Any

from kcr_devcluster.apiserver.schema.protobuf import decode, read_fields

PROTOBUF = "application/vnd.kubernetes.protobuf"


def varint(value: int) -> bytes:
    """Encode a number; negative ones take ten bytes."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """Encode fields: numbers as varints, everything else by its length."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def entry(key: str, value: str | bytes) -> bytes:
    """Return an entry of a map."""
    return message((1, key), (2, value))


def body(api_version: str, kind: str, raw: bytes) -> bytes:
    """Put an object into its envelope."""
    return b"k8s\x00" + message((1, message((1, api_version), (2, kind))), (2, raw), (3, ""), (4, ""))


def frames(chunk: bytes) -> list[tuple[str, Any]]:
    """Decode whole frames of a watch: the types and objects of the events."""
    events = []
    while chunk:
        end = 4 + int.from_bytes(chunk[:4], "big")
        (_, name), (_, extension) = read_fields(chunk[4:end])
        assert isinstance(name, bytes)
        assert isinstance(extension, bytes)
        ((_, raw),) = read_fields(extension)
        assert isinstance(raw, bytes)
        events.append((name.decode(), decode(raw)))
        chunk = chunk[end:]
    return events
