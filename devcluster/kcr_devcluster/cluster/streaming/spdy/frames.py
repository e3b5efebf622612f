"""Frames of SPDY/3: as values, and on the wire.

Source: SPDY Protocol, Draft 3, section 2.2 (framing) and 2.6 (control frames).
"""

import struct
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from kcr_devcluster.cluster.streaming.spdy.headers import HeaderCompressor, HeaderDecompressor, SPDYError

VERSION = 3
MAX_CONTROL_BYTES = 64 * 1024
MAX_DATA_BYTES = 4 * 1024 * 1024
_HEAD = struct.Struct(">II")
_STREAM, _PAIR = struct.Struct(">I"), struct.Struct(">II")
_FIN, _ID = 0x01, 0x7FFFFFFF
_CONTROL = 0x80000000


class FrameType(IntEnum):
    """The types of control frames."""

    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    HEADERS = 8
    WINDOW_UPDATE = 9


class ResetStatus(IntEnum):
    """Why a stream is reset."""

    PROTOCOL_ERROR = 1
    INVALID_STREAM = 2
    REFUSED_STREAM = 3
    CANCEL = 5


class SynStream(NamedTuple):
    """The other side opens a stream; `fin` says that it will send nothing on it."""

    stream: int
    headers: Mapping[str, str]
    fin: bool = False


class SynReply(NamedTuple):
    """A stream is accepted."""

    stream: int
    headers: Mapping[str, str] = {}
    fin: bool = False


class MoreHeaders(NamedTuple):
    """More headers of a stream (HEADERS)."""

    stream: int
    headers: Mapping[str, str]
    fin: bool = False


class Data(NamedTuple):
    """Data of a stream; with `fin` it is the last."""

    stream: int
    data: bytes
    fin: bool = False


class Reset(NamedTuple):
    """A stream ends at once, in both directions (RST_STREAM)."""

    stream: int
    status: int = ResetStatus.CANCEL


class Ping(NamedTuple):
    """To be sent back as it is."""

    number: int


class GoAway(NamedTuple):
    """The connection ends: no new streams."""

    last_stream: int
    status: int = 0


class Ignored(NamedTuple):
    """A frame that asks for nothing here: SETTINGS, WINDOW_UPDATE, and types that are not known."""

    type: int


Frame = SynStream | SynReply | MoreHeaders | Data | Reset | Ping | GoAway | Ignored


class FrameEncoder:
    """Writes frames; in the order in which they are encoded they must be sent."""

    def __init__(self) -> None:
        self._headers = HeaderCompressor()

    def encode(self, frame: Frame) -> bytes:
        """Return a frame on the wire."""
        match frame:
            case Data(stream, data, fin):
                return _HEAD.pack(stream, fin << 24 | len(data)) + data
            case SynStream(stream, headers, fin):
                return self._control(FrameType.SYN_STREAM, struct.pack(">IIH", stream, 0, 0), headers, fin=fin)
            case SynReply(stream, headers, fin):
                return self._control(FrameType.SYN_REPLY, _STREAM.pack(stream), headers, fin=fin)
            case MoreHeaders(stream, headers, fin):
                return self._control(FrameType.HEADERS, _STREAM.pack(stream), headers, fin=fin)
            case Reset(stream, status):
                return self._control(FrameType.RST_STREAM, _PAIR.pack(stream, status))
            case Ping(number):
                return self._control(FrameType.PING, _STREAM.pack(number))
            case GoAway(last_stream, status):
                return self._control(FrameType.GOAWAY, _PAIR.pack(last_stream, status))
            case Ignored(number):
                return self._control(number, b"")

    def _control(
        self, number: int, fixed: bytes, headers: Mapping[str, str] | None = None, *, fin: bool = False
    ) -> bytes:
        body = fixed if headers is None else fixed + self._headers.compress(headers)
        return _HEAD.pack(_CONTROL | VERSION << 16 | number, fin << 24 | len(body)) + body


class FrameDecoder:
    """Reads frames from bytes that come in pieces of any size."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._headers = HeaderDecompressor()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Take data, and yield the frames that are complete with it.

        Raises:
            SPDYError: A frame is malformed, or too long.
        """
        self._buffer += data
        while len(self._buffer) >= _HEAD.size:
            first, second = _HEAD.unpack_from(self._buffer)
            length = second & 0xFFFFFF
            if length > (MAX_CONTROL_BYTES if first & _CONTROL else MAX_DATA_BYTES):
                raise SPDYError(f"frame of {length} bytes")
            end = _HEAD.size + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_HEAD.size : end])
            del self._buffer[:end]
            yield self._frame(first, fin=bool(second >> 24 & _FIN), body=body)

    def _frame(self, first: int, *, fin: bool, body: bytes) -> Frame:
        if not first & _CONTROL:
            return Data(_stream(first), body, fin)
        if first >> 16 & 0x7FFF != VERSION:
            raise SPDYError(f"version {first >> 16 & 0x7FFF}")
        try:
            return self._control(first & 0xFFFF, body, fin=fin)
        except struct.error as error:
            raise SPDYError("control frame: it ends early") from error

    def _control(self, number: int, body: bytes, *, fin: bool) -> Frame:
        match number:
            case FrameType.SYN_STREAM:
                stream, _, _ = struct.unpack_from(">IIH", body)
                return SynStream(_stream(stream), self._headers.decompress(body[10:]), fin)
            case FrameType.SYN_REPLY:
                return SynReply(_stream(_STREAM.unpack_from(body)[0]), self._headers.decompress(body[4:]), fin)
            case FrameType.HEADERS:
                return MoreHeaders(_stream(_STREAM.unpack_from(body)[0]), self._headers.decompress(body[4:]), fin)
            case FrameType.RST_STREAM:
                stream, status = _PAIR.unpack(body)
                return Reset(_stream(stream), status)
            case FrameType.PING:
                return Ping(*_STREAM.unpack(body))
            case FrameType.GOAWAY:
                last, status = _PAIR.unpack(body)
                return GoAway(last & _ID, status)
        return Ignored(number)


def _stream(number: int) -> int:
    number &= _ID
    if not number:
        raise SPDYError("stream 0")
    return number
