"""Port-forward as kubectl does it: SPDY in the messages of a WebSocket, two streams for each connection.

The error stream carries a text when the connection fails, the data stream its bytes; their headers say which they are,
of which connection, and to which port.

Source: kubernetes/staging/src/k8s.io/kubelet/pkg/cri/streaming/portforward/httpstream.go;
kubernetes/staging/src/k8s.io/client-go/tools/portforward/{portforward,tunneling_connection}.go.
"""

import asyncio

from aiohttp import WSMsgType

from kcr.log import get_logger
from kcr_devcluster.cluster.streaming.channels import ServerSocket
from kcr_devcluster.cluster.streaming.forwarding import Forwarder
from kcr_devcluster.cluster.streaming.spdy.connection import SPDYConnection, SPDYStream
from kcr_devcluster.cluster.streaming.spdy.headers import SPDYError

STREAM_TYPE, PORT, REQUEST_ID = "streamtype", "port", "requestid"
# How many connections may wait for their second stream.
_MAX_UNPAIRED = 1_000

_log = get_logger()


async def forward_tunnel(socket: ServerSocket, forwarder: Forwarder) -> None:
    """Serve a WebSocket until its client closes it.

    Args:
        socket: The WebSocket.
        forwarder: Forwards to the pod.
    """
    async with asyncio.TaskGroup() as group:
        tunnel = _Tunnel(forwarder, group)
        connection = SPDYConnection(socket.send_bytes, tunnel.accept)
        try:
            while (message := await socket.receive()).type == WSMsgType.BINARY:
                if not await connection.receive(message.data):
                    break
        except ConnectionError:
            pass
        except SPDYError as error:
            _log.warning("port-forward connection closed, the client does not speak SPDY/3.1", error=str(error))
        finally:
            await connection.close()
            tunnel.cancel()


class _Tunnel:
    """The connections of one tunnel."""

    def __init__(self, forwarder: Forwarder, group: asyncio.TaskGroup) -> None:
        self._forwarder = forwarder
        self._group = group
        # Streams that wait for the other one of their connection, by request and type.
        self._unpaired: dict[str, dict[str, SPDYStream]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def accept(self, stream: SPDYStream) -> bool:
        """Take a stream; return False for one whose headers say nothing useful."""
        kind, request = stream.headers.get(STREAM_TYPE, ""), stream.headers.get(REQUEST_ID, "")
        port = _port(stream)
        if kind not in ("error", "data") or not request or not port or len(self._unpaired) >= _MAX_UNPAIRED:
            return False
        pair = self._unpaired.setdefault(request, {})
        if kind in pair:
            return False
        pair[kind] = stream
        if len(pair) == 2:
            del self._unpaired[request]
            task = self._group.create_task(self._forward(pair["data"], pair["error"]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return True

    async def _forward(self, data: SPDYStream, error: SPDYStream) -> None:
        try:
            problem = await self._forwarder.forward(_port(data), data)
            if problem:
                await error.write(problem.encode())
            await data.close()
            await error.close()
        except ConnectionError:
            pass  # the client has disconnected

    def cancel(self) -> None:
        """End all connections."""
        for task in tuple(self._tasks):
            task.cancel()


def _port(stream: SPDYStream) -> int:
    """Return the port that a stream is for; 0 when its header is none."""
    text = stream.headers.get(PORT, "")
    is_port = text.isascii() and text.isdigit() and len(text) <= 5 and int(text) < 1 << 16
    return int(text) if is_port else 0
