"""The client's side of kubectl's port-forward: SPDY in the messages of a WebSocket."""

from collections import defaultdict

import aiohttp

from kcr_devcluster.cluster.streaming.spdy.frames import (
    Data,
    Frame,
    FrameDecoder,
    FrameEncoder,
    Reset,
    SynReply,
    SynStream,
)

PROTOCOL = "SPDY/3.1+portforward.k8s.io"


class Tunnel:
    """Opens connections, and keeps what came by stream."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.received: defaultdict[int, bytearray] = defaultdict(bytearray)
        self.ended: set[int] = set()
        self.replied: set[int] = set()
        self._encoder, self._decoder = FrameEncoder(), FrameDecoder()
        self._next = 1

    async def send(self, frame: Frame) -> None:
        await self.socket.send_bytes(self._encoder.encode(frame))

    async def open(self, port: object, *, kinds: tuple[str, ...] = ("error", "data"), **headers: str) -> list[int]:
        """Open the streams of one connection, and return their numbers."""
        request, numbers = str(self._next), []
        for kind in kinds:
            named = {"streamtype": kind, "port": str(port), "requestid": request, **headers}
            await self.send(SynStream(self._next, named, fin=kind == "error"))
            numbers.append(self._next)
            self._next += 2
        return numbers

    async def connect(self, port: object) -> tuple[int, int]:
        """Open a connection, and return its error and data stream."""
        error, data = await self.open(port)
        return error, data

    async def write(self, stream: int, data: bytes, *, fin: bool = False) -> None:
        await self.send(Data(stream, data, fin))

    async def until_ended(self, *streams: int) -> None:
        """Read until the other side sends no more on some streams, or has reset them."""
        while not self.ended.issuperset(streams):
            await self.read()

    async def read(self) -> None:
        message = await self.socket.receive()
        assert message.type == aiohttp.WSMsgType.BINARY, message
        for frame in self._decoder.feed(message.data):
            match frame:
                case Data(stream, data, fin):
                    self.received[stream] += data
                    self.ended |= {stream} if fin else set()
                case Reset(stream):
                    self.ended.add(stream)
                case SynReply(stream):
                    self.replied.add(stream)
