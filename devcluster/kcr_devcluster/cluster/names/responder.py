"""DNS server for containers: answers for the cluster's domain, and forwards all else to the machine's servers."""

import asyncio
import socket
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from kcr_devcluster.cluster.names.records import Names

_FORWARD_SECONDS = 5.0
# Loads dnspython.
_ANSWERS = "kcr_devcluster.cluster.names.answers"


class Responder:
    """Answers requests on a datagram socket and a stream socket."""

    def __init__(self, names: Callable[[], Names], forwarders: Sequence[tuple[str, int]]) -> None:
        """Make a server.

        Args:
            names: Returns the names at present.
            forwarders: The servers for other names, in the order in which they are asked.
        """
        self._names = names
        self._forwarders = forwarders

    async def run(self, datagrams: socket.socket, streams: socket.socket) -> None:
        """Answer until cancelled, on two sockets that are bound; they are closed then."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            transport, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(self, group), sock=datagrams)
            try:
                async with await asyncio.start_server(self._serve, sock=streams) as server:
                    await server.serve_forever()
            finally:
                transport.close()

    async def respond(self, data: bytes, *, is_datagram: bool) -> bytes | None:
        """Return the answer to a request, None for what is none.

        Args:
            data: The request as sent.
            is_datagram: Whether the answer has to fit into a datagram.
        """
        if _ANSWERS not in sys.modules:
            # Beside the loop, which it would block for some tenths of a second: most programs find all names in their
            # hosts file, and ask for none here.
            await asyncio.to_thread(import_module, _ANSWERS)
        from kcr_devcluster.cluster.names.answers import read_request  # noqa: PLC0415  # see above

        request = read_request(data)
        if request is None:
            return None
        if request.is_for_cluster:
            return request.encode(request.answer(self._names()), is_datagram=is_datagram)
        forward = _forward_datagram if is_datagram else _forward_stream
        for server in self._forwarders:
            try:
                async with asyncio.timeout(_FORWARD_SECONDS):
                    return await forward(data, server)
            except (TimeoutError, OSError, asyncio.IncompleteReadError):
                continue
        return request.encode(request.failure(), is_datagram=is_datagram)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (answer := await self.respond(await _read(reader), is_datagram=False)) is not None:
                _write(writer, answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(2)))


def _write(writer: asyncio.StreamWriter, message: bytes) -> None:
    writer.write(len(message).to_bytes(2) + message)


async def _forward_stream(request: bytes, server: tuple[str, int]) -> bytes:
    reader, writer = await asyncio.open_connection(*server)
    try:
        _write(writer, request)
        return await _read(reader)
    finally:
        writer.close()


async def _forward_datagram(request: bytes, server: tuple[str, int]) -> bytes:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bytes] = loop.create_future()
    transport, _ = await loop.create_datagram_endpoint(lambda: _Answer(answer, request), remote_addr=server)
    try:
        return await answer
    finally:
        transport.close()


class _Answer(asyncio.DatagramProtocol):
    """Sends a request, and waits for its answer."""

    def __init__(self, answer: asyncio.Future[bytes], request: bytes) -> None:
        self._answer, self._request = answer, request

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        transport.sendto(self._request)

    def datagram_received(self, data: bytes, addr: object) -> None:
        # The number of the request.
        if data[:2] == self._request[:2] and not self._answer.done():
            self._answer.set_result(data)

    def error_received(self, exc: Exception) -> None:
        if not self._answer.done():
            self._answer.set_exception(exc)


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, responder: Responder, group: asyncio.TaskGroup) -> None:
        self._responder, self._group = responder, group
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._group.create_task(self._reply(data, addr))

    async def _reply(self, data: bytes, addr: tuple[str, int]) -> None:
        answer = await self._responder.respond(data, is_datagram=True)
        if answer is not None and self._transport is not None:
            self._transport.sendto(answer, addr)
