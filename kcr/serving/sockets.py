"""Accepting connections: one that does not speak costs a socket, and no protocol, buffers or TLS.

A socket waits until something arrives on it. Then its handshake has a deadline, and then the connection is the
server's. Where there are too many, the oldest that says nothing makes room for a new one: probes are answered whoever
else connects.
"""

import asyncio
import errno
import socket
import ssl
from contextlib import suppress
from typing import NamedTuple, cast

from aiohttp import web

from kcr.serving.httpserver import Server

_BACKLOG = 1024
# So many are accepted before other work of the loop.
_AT_ONCE = 64
# So many handshakes go on at a time, for each takes memory; one may be given up for another after a while.
_HANDSHAKES = 100
_SLOW_SECONDS = 1.0
# Wait so long where the process has no descriptors left.
_PAUSE_SECONDS = 1.0


class Deadlines(NamedTuple):
    """How long a new connection may take.

    Attributes:
        speak: For its first byte, in seconds.
        handshake: For TLS, in seconds.
    """

    speak: float = 10.0
    handshake: float = 5.0


class Site(web.BaseSite):
    """Listens for a server of `kcr.serving.httpserver`; a runner of aiohttp stops it."""

    __slots__ = ("_address", "_deadlines")

    def __init__(
        self,
        runner: web.ServerRunner,
        host: str | None,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        deadlines: Deadlines | None = None,
    ) -> None:
        """Make a site; it does not listen yet.

        Args:
            runner: With the server.
            host: The address, None for all.
            port: The port, 0 for any.
            tls: With the certificate; None for plain HTTP.
            deadlines: How long new connections may take.
        """
        super().__init__(runner, ssl_context=tls)
        self._address = (host, port)
        self._deadlines = deadlines or Deadlines()

    @property
    def name(self) -> str:
        """The address."""
        return f"{self._address[0] or '*'}:{self._address[1]}"

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: The address cannot be bound.
        """
        await super().start()
        server = self._runner.server
        assert isinstance(server, Server)
        sockets = await _bound(*self._address)
        acceptor = _Acceptor(server, sockets, self._ssl_context, self._deadlines)
        self._server = cast(asyncio.AbstractServer, acceptor)


async def _bound(host: str | None, port: int) -> list[socket.socket]:
    """Return listening sockets, one for each address of a host, at one port."""
    loop, sockets = asyncio.get_running_loop(), list[socket.socket]()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # IPv4 first: where there is no IPv6, its addresses are listed nevertheless.
    for family, address in sorted({(one[0], one[4]) for one in found}):
        try:
            made = socket.create_server((address[0], port, *address[2:]), family=family, backlog=_BACKLOG)
        except OSError as error:
            if sockets and error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                continue
            for one in sockets:
                one.close()
            raise
        made.setblocking(False)
        port = made.getsockname()[1]
        sockets.append(made)
    return sockets


class _Acceptor:
    """The listening sockets, and the connections that are not the server's yet; aiohttp stops it like a server."""

    def __init__(
        self, server: Server, sockets: list[socket.socket], tls: ssl.SSLContext | None, deadlines: Deadlines
    ) -> None:
        self.sockets = sockets
        self._http, self._tls, self._deadlines = server, tls, deadlines
        self._loop = asyncio.get_running_loop()
        # In the order in which they came: those that say nothing, those that wait for their handshake, and those in it.
        self._silent: dict[socket.socket, asyncio.TimerHandle] = {}
        self._waiting: dict[socket.socket, asyncio.TimerHandle] = {}
        self._greeting: dict[socket.socket, tuple[float, asyncio.Task[None]]] = {}
        self._later: asyncio.TimerHandle | None = None
        self._resume()

    def close(self) -> None:
        """Stop listening, and close what is not the server's yet."""
        for one in self.sockets:
            self._loop.remove_reader(one)
            one.close()
        self.sockets = []
        if self._later is not None:
            self._later.cancel()
        for connection in [*self._silent, *self._waiting]:
            self._drop(connection)
        for _, task in list(self._greeting.values()):
            task.cancel()

    def _resume(self) -> None:
        for one in self.sockets:
            self._loop.add_reader(one, self._accept, one)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                # No descriptor is left.
                if not self._make_room():
                    self._loop.remove_reader(listening)
                    self._loop.call_later(_PAUSE_SECONDS, self._resume)
                return
            self._take(connection)

    def _take(self, connection: socket.socket) -> None:
        """Wait until a new connection speaks, after others made room for it."""
        count = len(self._silent) + len(self._waiting) + len(self._greeting) + self._http.count
        if count >= self._http.limit and not self._make_room():
            connection.close()
            self._http.refuse()
            return
        connection.setblocking(False)
        self._silent[connection] = self._loop.call_later(self._deadlines.speak, self._drop, connection)
        self._loop.add_reader(connection, self._speaks, connection)

    def _make_room(self) -> bool:
        """Close the oldest connection that says nothing; return whether there is one."""
        for connection in (*self._silent, *self._waiting):
            self._drop(connection)
            return True
        for _, task in self._greeting.values():
            task.cancel()
            return True
        return self._http.close_idle()

    def _drop(self, connection: socket.socket) -> None:
        self._forget(connection)
        connection.close()

    def _forget(self, connection: socket.socket) -> None:
        if connection in self._silent:
            self._loop.remove_reader(connection)
            self._silent.pop(connection).cancel()
        else:
            self._waiting.pop(connection).cancel()

    def _speaks(self, connection: socket.socket) -> None:
        try:
            said = connection.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            said = b"."
        except OSError:
            said = b""
        if not said:
            # A check whether the port is open, for instance.
            self._drop(connection)
            return
        self._loop.remove_reader(connection)
        self._waiting[connection] = self._silent.pop(connection)
        self._greet_some()

    def _greet_some(self) -> None:
        """Begin the handshakes of those that wait, as many as may go on at a time."""
        now = self._loop.time()
        while self._waiting and self.sockets:
            if len(self._greeting) >= _HANDSHAKES:
                oldest = next(iter(self._greeting))
                since, task = self._greeting[oldest]
                if now < since + _SLOW_SECONDS:
                    if self._later is None:
                        self._later = self._loop.call_at(since + _SLOW_SECONDS, self._go_on)
                    return
                del self._greeting[oldest]
                task.cancel()
            # The newest first: where many do not go on, the others get their turn soon.
            connection = next(reversed(self._waiting))
            self._forget(connection)
            self._greeting[connection] = now, self._loop.create_task(self._greet(connection), name="kcr connection")

    def _go_on(self) -> None:
        self._later = None
        self._greet_some()

    async def _greet(self, connection: socket.socket) -> None:
        """Give a connection to the server, after the handshake of TLS."""
        seconds = self._deadlines.handshake if self._tls is not None else None
        try:
            # What fails is the client's: another protocol, a certificate that it does not trust, no patience.
            with suppress(OSError, TimeoutError):
                await self._loop.connect_accepted_socket(
                    self._http, connection, ssl=self._tls, ssl_handshake_timeout=seconds
                )
        except asyncio.CancelledError:
            connection.close()
            raise
        finally:
            self._greeting.pop(connection, None)
            self._greet_some()
