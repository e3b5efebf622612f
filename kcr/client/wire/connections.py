"""Connections: proxies, sockets, name resolution, idle connections, and the fence before the first byte."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from ipaddress import ip_address, ip_network
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, AbstractStreamWriter, ResolveResult
from aiohttp.connector import Connection

from kcr.client.context import WRITE_CONTEXT
from kcr.clock import TIMER_SLACK_SECONDS

_KEEP_ALIVE_SECONDS = 60.0
# Called with a name and the seconds until it was resolved, or could not be.
OnResolve = Callable[[str, float], None]

# Finds dead connections below HTTP: probes after 30 s of silence, and no acknowledgement awaited beyond 30 s.
# By name, because not every system has all of them.
_OPTIONS: tuple[tuple[int, str, int], ...] = (
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_NODELAY", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 30),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 10),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 30_000),
)
# More numbers than a program ever loses.
_TRIES = 64


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


class SilenceTimer:
    """Ends a stream that was silent for too long: a context, with one timer, which moves when it fires.

    aiohttp makes one for each chunk.

    Source: aiohttp, `ClientTimeout.sock_read`, whose error this raises.
    """

    __slots__ = ("_content", "_heard", "_now", "_read", "_seconds", "_timer")

    _timer: asyncio.Handle | None

    def __init__(self, content: aiohttp.StreamReader, seconds: float | None) -> None:
        """Make a timer.

        Args:
            content: The stream, of which nothing was read.
            seconds: How long it may be silent; None for no limit.
        """
        loop = asyncio.get_running_loop()
        self._content, self._seconds, self._now = content, seconds, loop.time
        self._heard, self._read = loop.time(), 0
        self._timer = None if seconds is None else loop.call_later(seconds, self._check)

    @classmethod
    def instead_of(cls, answer: aiohttp.ClientResponse, seconds: float | None) -> Self:
        """Return the timer for the body of an answer, whose own one ends with the next chunk."""
        if answer.connection is not None and answer.connection.protocol is not None:
            answer.connection.protocol.read_timeout = None
        return cls(answer.content, seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def note(self, size: int) -> None:
        """Note that so many bytes of the body were read."""
        self._heard = self._now()
        self._read += size

    def _check(self) -> None:
        assert self._seconds is not None
        # Unread bytes: the reader is slow, not the server.
        if self._content.total_bytes > self._read:
            self._heard = self._now()
        if (left := self._heard + self._seconds - self._now()) > TIMER_SLACK_SECONDS:
            self._timer = asyncio.get_running_loop().call_later(left, self._check)
        else:
            self._content.set_exception(aiohttp.SocketTimeoutError("Timeout on reading data from socket"))


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
    fence = WRITE_CONTEXT.get().fence
    if fence is not None:
        fence()


def make_socket(address: Any) -> socket.socket:
    """Make a socket for a connection to an address, as `socket.getaddrinfo` gives it.

    The system hands out the lowest number that is free. Now and then uvloop holds a transport whose number is closed
    already, mostly after a server broke many connections, and refuses each socket that gets this number: "File
    descriptor 12 is used by transport". No connection would be made for as long as no lower one is free. So such a
    socket is kept until another number is found.

    Raises:
        OSError: The system gives no socket, or takes no options for it.

    Source: MagicStack/uvloop issue 653.
    """
    family, kind, protocol, _, _ = address
    refused: list[socket.socket] = []
    try:
        while True:
            made = socket.socket(family, kind, protocol)
            if not _is_refused(made) or len(refused) == _TRIES:
                break
            refused.append(made)
    finally:
        for one in refused:
            one.close()
    try:
        _configure(made)
    except OSError:
        made.close()
        raise
    return made


def _configure(made: socket.socket) -> None:
    made.setblocking(False)
    for level, name, value in _OPTIONS:
        option = getattr(socket, name, None)
        if option is not None:
            made.setsockopt(level, option, value)


def _is_refused(made: socket.socket) -> bool:
    """Return whether the event loop takes the socket for one of a connection that is open."""
    try:
        # `remove_writer` is called for its check alone: the socket has no writer.
        asyncio.get_running_loop().remove_writer(made)
    except NotImplementedError:  # the proactor loop of Windows
        return False
    except RuntimeError:
        return True
    return False


def proxy_for(server: str, environ: Mapping[str, str]) -> str:
    """Return the URL of the proxy that the environment names for a server, empty for none.

    It is decided once, at start (ST-19).

    `HTTPS_PROXY` or `HTTP_PROXY`, by the server's scheme, in either case; `NO_PROXY` and the own machine
    are excepted.

    Source: golang.org/x/net/http/httpproxy, Config.ProxyFunc.
    """
    url = urlsplit(server)
    host = url.hostname or ""
    proxy = _variable(f"{url.scheme}_proxy", environ)
    if not proxy or host == "localhost" or (_is_address(host) and ip_address(host).is_loopback):
        return ""
    port = str(url.port or (443 if url.scheme == "https" else 80))
    if any(_excepts(entry.strip().lower(), host, port) for entry in _variable("no_proxy", environ).split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _variable(name: str, environ: Mapping[str, str]) -> str:
    return environ.get(name.upper()) or environ.get(name) or ""


def _excepts(entry: str, host: str, port: str) -> bool:
    if not entry or entry == "*":
        return entry == "*"
    if "/" in entry:
        return _is_in_network(host, entry)
    name, _, wanted_port = entry.rpartition(":") if entry.count(":") == 1 or "]:" in entry else (entry, "", "")
    if wanted_port and wanted_port != port:
        return False
    if _is_address(name.strip("[]")):
        return _is_address(host) and ip_address(host) == ip_address(name.strip("[]"))
    suffix = "." + name.removeprefix("*").removeprefix(".")
    return host.endswith(suffix) or (not name.startswith((".", "*")) and host == name)


def _is_in_network(host: str, network: str) -> bool:
    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def without_password(url: str) -> str:
    """Return a URL without the name and password in it, for messages."""
    head, separator, rest = url.rpartition("@")
    return f"{head.partition('://')[0]}://{rest}" if separator else url
