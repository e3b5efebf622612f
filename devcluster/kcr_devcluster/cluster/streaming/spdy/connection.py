"""A SPDY connection, as the side that accepts streams.

SPDY/3.1 has windows, but the Go library that kubectl uses sends and keeps none: back-pressure is that of the transport.
A stream that is not read stops the whole connection once its buffer is full, there as here.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping

from kcr_devcluster.cluster.streaming.spdy.frames import (
    Data,
    Frame,
    FrameDecoder,
    FrameEncoder,
    GoAway,
    Ping,
    Reset,
    ResetStatus,
    SynReply,
    SynStream,
)
from kcr_devcluster.cluster.streaming.spdy.headers import SPDYError

MAX_STREAMS = 2_000
# How much of a stream waits to be read before the connection is no longer read.
BUFFER_BYTES = 256 * 1024
CHUNK_BYTES = 32 * 1024


class SPDYStream:
    """One stream of a connection.

    Attributes:
        number: Its number.
        headers: The headers from the other side, names in lower case.
    """

    def __init__(self, connection: "SPDYConnection", number: int, headers: Mapping[str, str], *, fin: bool) -> None:
        self.number = number
        self.headers = headers
        self._connection = connection
        self._received: deque[bytes] = deque()
        self._buffered = 0
        # The other side sends no more; this side sends no more; both, at once.
        self._remote_closed = fin
        self._local_closed = False
        self._reset = False
        self._changed = asyncio.Condition()

    async def read(self) -> bytes:
        """Return data, waiting for it; empty at the end.

        Raises:
            ConnectionError: The stream has been reset.
        """
        async with self._changed:
            await self._changed.wait_for(lambda: self._received or self._remote_closed or self._reset)
            if self._reset:
                raise ConnectionResetError
            if not self._received:
                return b""
            data = self._received.popleft()
            self._buffered -= len(data)
            self._changed.notify_all()
            return data

    async def write(self, data: bytes) -> None:
        """Send data.

        Raises:
            ConnectionError: The stream or the connection is closed.
        """
        for start in range(0, len(data), CHUNK_BYTES):
            if self._local_closed or self._reset:
                raise ConnectionResetError
            await self._connection.send(Data(self.number, data[start : start + CHUNK_BYTES]))

    async def close(self) -> None:
        """Send no more. The stream is over once the other side sends no more either."""
        if not (self._local_closed or self._reset):
            self._local_closed = True
            if self._remote_closed:
                self._connection.forget(self.number)
            await self._connection.send(Data(self.number, b"", fin=True))

    async def take(self, data: bytes, *, fin: bool) -> None:
        """Take data that has come, once there is room for it."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._buffered < BUFFER_BYTES or self._is_over)
            if data and not self._is_over:
                self._received.append(data)
                self._buffered += len(data)
            self._remote_closed |= fin
            self._changed.notify_all()
        if self._remote_closed and self._local_closed:
            self._connection.forget(self.number)

    @property
    def _is_over(self) -> bool:
        return self._reset or self._remote_closed

    async def end(self) -> None:
        """End in both directions: the other side has reset it, or has disconnected."""
        async with self._changed:
            self._reset = True
            self._changed.notify_all()


class SPDYConnection:
    """Accepts streams, and moves their data."""

    def __init__(
        self, write: Callable[[bytes], Awaitable[None]], on_stream: Callable[[SPDYStream], Awaitable[bool]]
    ) -> None:
        """Begin a connection.

        Args:
            write: Sends bytes; it does not return while the other side reads too slowly.
            on_stream: Called with each new stream; returns whether it is accepted.
        """
        self._write = write
        self._on_stream = on_stream
        self._encoder = FrameEncoder()
        self._decoder = FrameDecoder()
        self._streams: dict[int, SPDYStream] = {}
        self._last = 0
        self._sending = asyncio.Lock()

    async def receive(self, data: bytes) -> bool:
        """Take bytes that have come; return False when the other side ends the connection.

        Raises:
            SPDYError: They are not SPDY; the other side has been notified.
            ConnectionError: The other side has disconnected.
        """
        try:
            for frame in self._decoder.feed(data):
                if isinstance(frame, GoAway):
                    return False
                await self._handle(frame)
        except SPDYError:
            await self.send(GoAway(self._last, 1))
            raise
        return True

    async def _handle(self, frame: Frame) -> None:
        match frame:
            case SynStream():
                await self._open(frame)
            case Data(number, data, fin):
                if (stream := self._streams.get(number)) is not None:
                    await stream.take(data, fin=fin)
            case Reset(number):
                if (stream := self._streams.pop(number, None)) is not None:
                    await stream.end()
            case Ping():
                await self.send(frame)

    async def _open(self, frame: SynStream) -> None:
        if frame.stream % 2 == 0 or frame.stream <= self._last:
            await self.send(Reset(frame.stream, ResetStatus.PROTOCOL_ERROR))
            return
        self._last = frame.stream
        if len(self._streams) >= MAX_STREAMS:
            await self.send(Reset(frame.stream, ResetStatus.REFUSED_STREAM))
            return
        stream = SPDYStream(self, frame.stream, frame.headers, fin=frame.fin)
        self._streams[frame.stream] = stream
        # The reply is sent first: the other side drops data of streams that have none.
        await self.send(SynReply(frame.stream))
        if not await self._on_stream(stream):
            await self.reset(stream)

    async def send(self, frame: Frame) -> None:
        """Send a frame.

        Raises:
            ConnectionError: The other side has disconnected.
        """
        async with self._sending:
            await self._write(self._encoder.encode(frame))

    async def reset(self, stream: SPDYStream) -> None:
        """End a stream at once, in both directions."""
        if self._streams.pop(stream.number, None) is not None:
            await stream.end()
            await self.send(Reset(stream.number))

    def forget(self, number: int) -> None:
        """Drop a stream that is over."""
        self._streams.pop(number, None)

    async def close(self) -> None:
        """End all streams; nothing is sent."""
        for stream in tuple(self._streams.values()):
            await stream.end()
        self._streams.clear()
