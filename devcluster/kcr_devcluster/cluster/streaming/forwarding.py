"""Forwards a connection of a client to a port of a pod; pods have the machine's address."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from kcr.api.meta import Key

# Where a pod's ports are.
# Source: containerd/internal/cri/server/sandbox_portforward_linux.go, portForward: localhost, IPv4 first.
_HOSTS = ("127.0.0.1", "::1")
_CHUNK_BYTES = 32 * 1024


class ByteStream(Protocol):
    """The client's end of a connection. Each method provides back-pressure by not returning."""

    async def read(self) -> bytes:
        """Wait for more from the client; empty when it sends no more.

        Raises:
            ConnectionError: The client has disconnected.
        """
        ...

    async def write(self, data: bytes) -> None:
        """Send to the client.

        Raises:
            ConnectionError: The client has disconnected.
        """
        ...


class Forwarder:
    """Forwards connections to the ports of one pod."""

    def __init__(self, key: Key, uid: str, is_running: Callable[[], bool]) -> None:
        """Forward to a pod.

        Args:
            key: The pod.
            uid: Its uid.
            is_running: Whether one of its containers runs.
        """
        self._key = key
        self._uid = uid
        self._is_running = is_running

    async def forward(self, port: int, client: ByteStream) -> str:
        """Forward a connection to its end, and return why there was none, empty for success.

        Source: kubernetes/staging/src/k8s.io/kubelet/pkg/cri/streaming/portforward/httpstream.go, portForward.
        """
        error = f"error forwarding port {port} to pod {self._key}, uid {self._uid}: "
        if not self._is_running():
            return f"{error}the pod does not run any more"
        try:
            reader, writer = await _connect(port)
        except OSError as problem:
            reason = os.strerror(problem.errno) if problem.errno else str(problem)
            return f"{error}failed to connect to localhost:{port}: {reason}"
        try:
            async with asyncio.TaskGroup() as group:
                upstream = group.create_task(_to_pod(client, writer))
                await _to_client(reader, client)
                upstream.cancel()
        finally:
            writer.close()
        return ""


async def _connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a port; the error is that of the first address."""
    failure: OSError | None = None
    for host in _HOSTS:
        try:
            return await asyncio.open_connection(host, port)
        except OSError as error:
            failure = failure or error
    raise failure or OSError("no address")


async def _to_pod(client: ByteStream, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await client.read():
            writer.write(data)
            await writer.drain()
        if not writer.is_closing():
            writer.write_eof()
    except OSError:
        # The client has disconnected or the pod has ended. Either way nothing is left to be read. Not all of these are
        # ConnectionErrors: it is ENOTCONN to end a connection that the pod has reset.
        writer.close()


async def _to_client(reader: asyncio.StreamReader, client: ByteStream) -> None:
    with suppress(OSError):
        while data := await reader.read(_CHUNK_BYTES):
            await client.write(data)
