"""Channels of a WebSocket: how the streams of a command share one connection.

Each message begins with the number of its channel: 0 to 2 are the standard streams, 3 is for the Status at the end, 4
for the size of the terminal, and 255, from version 5 of the protocol on, closes the channel that follows it.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/util/remotecommand/constants.go;
kubernetes/staging/src/k8s.io/apiserver/pkg/util/proxy/websocket.go.
"""

import asyncio
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Protocol

import msgspec
from aiohttp import WSMessage, WSMsgType

from kcr_devcluster.apiserver.http.pods.pod_streams import V5
from kcr_devcluster.apiserver.protocol.responses import PodStream
from kcr_devcluster.cluster.node.commands import TerminalSize

# The longest message that is taken from a client.
# Source: golang.org/x/net/websocket, DefaultMaxPayloadBytes.
MAX_MESSAGE_BYTES = 32 << 20
# How much waits for a command that does not read before no more messages are taken.
BUFFER_BYTES = 1 << 20
# How often a client whose input has to wait is sent a sign of life: kubectl gives up after 60 s.
_PONG_SECONDS = 5.0
_DATA = (WSMsgType.BINARY, WSMsgType.TEXT)


class StreamChannel(IntEnum):
    """The numbers of the channels."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    RESIZE = 4
    CLOSE = 255


class ServerSocket(Protocol):
    """The server's end of a connection: a WebSocket of aiohttp, or a pipe inside the process."""

    async def receive(self) -> WSMessage:
        """Wait for a message of the client, or for its end."""
        ...

    async def send_bytes(self, data: bytes) -> None:
        """Send a message.

        Raises:
            ConnectionError: The client has disconnected.
        """
        ...

    async def pong(self) -> None:
        """Send a sign of life."""
        ...


class _Size(msgspec.Struct, frozen=True):
    """The message of the resize channel."""

    Width: int = 0
    Height: int = 0


class MessageBuffer:
    """Messages that wait to be read, up to a number of bytes and one message more."""

    def __init__(self) -> None:
        self._messages: asyncio.Queue[bytes] = asyncio.Queue()
        self._bytes = 0
        self._read = asyncio.Event()

    async def put(self, message: bytes) -> None:
        """Add a message once there is room."""
        while self._bytes >= BUFFER_BYTES:
            self._read.clear()
            await self._read.wait()
        self._bytes += len(message)
        self._messages.put_nowait(message)

    async def get(self) -> bytes:
        """Return the next message, waiting for it."""
        message = await self._messages.get()
        self._bytes -= len(message)
        self._read.set()
        return message


class Channels:
    """The streams of a command, on the server's side of a WebSocket."""

    def __init__(self, socket: ServerSocket, stream: PodStream) -> None:
        """Take a WebSocket that is open.

        Args:
            socket: The WebSocket.
            stream: Which channels there are.
        """
        self._socket = socket
        self._stream = stream
        self._stdin = MessageBuffer()
        self._stdin_over = False
        self._size: TerminalSize | None = None
        self._resized = asyncio.Event()

    async def receive(self) -> None:
        """Take messages from the client until it closes the connection.

        A command that does not read its input makes this wait, and in the end the client.
        """
        while True:
            message = await self._socket.receive()
            if message.type not in _DATA:
                return
            data: bytes = message.data.encode() if isinstance(message.data, str) else message.data
            try:
                await self._take(data[:1], data[1:])
            except ConnectionError:
                return

    async def _take(self, channel: bytes, data: bytes) -> None:
        if channel == bytes([StreamChannel.STDIN]) and data:
            await self._put(data)
        elif channel == bytes([StreamChannel.RESIZE]):
            self._resize(data)
        elif (
            channel == bytes([StreamChannel.CLOSE])
            and self._stream.protocol == V5
            and data == bytes([StreamChannel.STDIN])
        ):
            await self._put(b"")
            self._stdin_over = True

    async def _put(self, data: bytes) -> None:
        """Queue input, empty for its end, once there is room."""
        while self._stream.stdin and not self._stdin_over:
            try:
                async with asyncio.timeout(_PONG_SECONDS):
                    await self._stdin.put(data)
                return
            except TimeoutError:
                await self._socket.pong()

    def _resize(self, data: bytes) -> None:
        try:
            size = msgspec.json.decode(data, type=_Size)
        except ValueError:
            return
        if 0 < size.Width < 1 << 16 and 0 < size.Height < 1 << 16:
            self._size = TerminalSize(size.Width, size.Height)
            self._resized.set()

    async def read(self) -> bytes:
        """Wait for more standard input; see `CommandStreams`."""
        return await self._stdin.get()

    async def write(self, data: bytes, *, stderr: bool = False) -> None:
        """Send output, unless the client wants none; see `CommandStreams`."""
        if self._stream.stderr if stderr else self._stream.stdout:
            await self._send(StreamChannel.STDERR if stderr else StreamChannel.STDOUT, data)

    async def next_size(self) -> TerminalSize:
        """Wait for the next size of the terminal; see `CommandStreams`."""
        while self._size is None:
            self._resized.clear()
            await self._resized.wait()
        size, self._size = self._size, None
        return size

    async def greet(self) -> None:
        """Send the empty message that tells the client that the connection is open."""
        first = (
            StreamChannel.STDOUT
            if self._stream.stdout
            else StreamChannel.STDERR
            if self._stream.stderr
            else StreamChannel.ERROR
        )
        await self._send(first, b"")

    async def send_status(self, status: Mapping[str, Any]) -> None:
        """Send how the command ended."""
        await self._send(StreamChannel.ERROR, msgspec.json.encode(status))

    async def _send(self, channel: StreamChannel, data: bytes) -> None:
        await self._socket.send_bytes(bytes([channel]) + data)
