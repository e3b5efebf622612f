"""Connections: how names are resolved, how long idle ones stay open, and the fence before the first byte."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextvars import ContextVar

import aiohttp
from aiohttp.abc import AbstractResolver, AbstractStreamWriter, ResolveResult
from aiohttp.connector import Connection

from kcr.client.wire.sockets import make_socket

_KEEP_ALIVE_SECONDS = 60.0
# The fence of the request that this task sends; aiohttp hands nothing of ours to its requests.
FENCE: ContextVar[Callable[[], None] | None] = ContextVar("kcr_fence", default=None)
# Called with a name and the seconds until it was resolved, or could not be.
OnResolve = Callable[[str, float], None]


def make_connector(tls: ssl.SSLContext, on_resolve: OnResolve | None) -> aiohttp.TCPConnector:
    """Return a pool of connections without a limit.

    Args:
        tls: With which certificates.
        on_resolve: Called when a name was resolved; None for no call. Addresses are not resolved, and
            names are remembered for some seconds.
    """
    resolver = TimedResolver(on_resolve) if on_resolve is not None else None
    return aiohttp.TCPConnector(
        limit=0, ssl=tls, keepalive_timeout=_KEEP_ALIVE_SECONDS, socket_factory=make_socket, resolver=resolver
    )


class TimedResolver(AbstractResolver):
    """Resolves names as aiohttp does, and tells how long it took."""

    def __init__(self, on_resolve: OnResolve) -> None:
        self._on_resolve = on_resolve
        self._inner = aiohttp.DefaultResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a name."""
        now = asyncio.get_running_loop().time
        began = now()
        try:
            return await self._inner.resolve(host, port, family)
        finally:
            self._on_resolve(host, now() - began)

    async def close(self) -> None:
        """Hold nothing any more."""
        await self._inner.close()


class FencedRequest(aiohttp.ClientRequest):
    """A request that checks its fence when it has a connection, new or reused, before a byte is sent.

    A lease may be lost while a name is resolved, while a connection is made, and in the moment that aiohttp takes
    before it writes the head together with the body.
    """

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        """Send the request on a connection."""
        _check_fence()
        return await super().send(conn)

    async def write_bytes(
        self, writer: AbstractStreamWriter, conn: Connection, content_length: int | None = None
    ) -> None:
        """Write head and body, on its own task; an exception of the fence is raised where the response is awaited."""
        try:
            _check_fence()
        except Exception as error:
            assert conn.protocol is not None
            conn.protocol.set_exception(error)
            return
        await super().write_bytes(writer, conn, content_length)


def _check_fence() -> None:
    """Call the fence of this task's request, if it has one."""
    fence = FENCE.get()
    if fence is not None:
        fence()
