"""Port-forward over the channels of a WebSocket, as client libraries in Python and JavaScript do it.

The ports are in the request, each with one connection and two channels: 2n for its data, 2n+1 for its errors. The
first message of each channel is the port.

Source: kubernetes/staging/src/k8s.io/kubelet/pkg/cri/streaming/portforward/websocket.go.
"""

import asyncio
import struct
from collections.abc import Sequence

from aiohttp import WSMsgType

from kcr_devcluster.cluster.streaming.channels import MessageBuffer, ServerSocket
from kcr_devcluster.cluster.streaming.forwarding import Forwarder


class _PortChannel:
    """One connection of a client, as a stream of bytes."""

    def __init__(self, socket: ServerSocket, number: int) -> None:
        self._socket = socket
        self.number = number
        self.received = MessageBuffer()
        self.is_over = False

    async def read(self) -> bytes:
        return await self.received.get()

    async def write(self, data: bytes) -> None:
        await self._socket.send_bytes(bytes([self.number]) + data)

    async def write_error(self, data: bytes) -> None:
        await self._socket.send_bytes(bytes([self.number + 1]) + data)


async def forward_ports(socket: ServerSocket, forwarder: Forwarder, ports: Sequence[int]) -> None:
    """Serve a WebSocket until its client closes it, or the last of its connections is over.

    Args:
        socket: The WebSocket.
        forwarder: Forwards to the pod.
        ports: One connection is made to each.
    """
    channels = {2 * index: _PortChannel(socket, 2 * index) for index in range(len(ports))}
    async with asyncio.TaskGroup() as group:
        receiving = group.create_task(_receive(socket, channels))
        tasks = [
            group.create_task(_forward(channel, forwarder, port))
            for channel, port in zip(channels.values(), ports, strict=True)
        ]
        serving = group.create_task(asyncio.wait(tasks))
        await asyncio.wait({receiving, serving}, return_when=asyncio.FIRST_COMPLETED)
        for task in (receiving, serving, *tasks):
            task.cancel()


async def _receive(socket: ServerSocket, channels: dict[int, _PortChannel]) -> None:
    while (message := await socket.receive()).type == WSMsgType.BINARY:
        channel = channels.get(message.data[0]) if message.data else None
        if channel is not None and not channel.is_over and len(message.data) > 1:
            await channel.received.put(message.data[1:])


async def _forward(channel: _PortChannel, forwarder: Forwarder, port: int) -> None:
    try:
        head = struct.pack("<H", port)
        await channel.write(head)
        await channel.write_error(head)
        problem = await forwarder.forward(port, channel)
        if problem:
            await channel.write_error(problem.encode())
    except ConnectionError:
        pass  # the client has disconnected
    finally:
        channel.is_over = True
