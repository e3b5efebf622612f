"""Connections: how names are resolved, and how long idle ones stay open."""

import asyncio
import socket
import ssl
from collections.abc import Callable

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from kcr.client.wire.sockets import make_socket

_KEEP_ALIVE_SECONDS = 60.0
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
