"""A connection into a pod inside the process: two bounded buffers of messages in place of a WebSocket."""

from collections.abc import AsyncIterator

from aiohttp import WSMessage, WSMsgType
from aiohttp.http_websocket import WS_CLOSED_MESSAGE

from kcr.errors import TransportError
from kcr_devcluster.cluster.streaming.channels import MessageBuffer

# No message is empty: the first byte is its channel.
_END = b""


class Pipe:
    """The server's end of a connection; see `ServerSocket`. The methods `send` and `messages` are the client's end."""

    def __init__(self) -> None:
        self._to_server = MessageBuffer()
        self._to_client = MessageBuffer()
        self._is_over = False

    async def receive(self) -> WSMessage:
        """Wait for a message of the client."""
        data = await self._to_server.get()
        return WSMessage(WSMsgType.BINARY, data, None) if data else WS_CLOSED_MESSAGE

    async def send_bytes(self, data: bytes) -> None:
        """Send a message, once there is room for it."""
        await self._to_client.put(data)

    async def pong(self) -> None:
        """Do nothing: the client has no timeout."""

    async def end(self) -> None:
        """End the connection: the client gets what was sent before."""
        self._is_over = True
        await self._to_client.put(_END)

    async def send(self, message: bytes) -> None:
        """Send a message to the server, once there is room for it.

        Raises:
            TransportError: The connection is over.
        """
        if self._is_over:
            raise TransportError("the connection into the pod is over")
        if message:
            await self._to_server.put(message)

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield the messages of the server until it ends the connection."""
        while message := await self._to_client.get():
            yield message
