"""HTTP servers on aiohttp: responses and log lines when a request cannot be served.

The response is always a Status, and the log has one line: a handler that raises is answered 500 and logged as an error
with its traceback; a malformed request is answered 400, oversized headers 431, and logged as a warning.

Connections cannot exhaust the memory or the file descriptors of the process: their number has a limit, and beyond it
the oldest idle one is closed for a new one. A request that does not arrive, and a response that is not read, end with
their connection after a while. A connection that does not speak costs a socket, and no protocol, buffers or TLS: probes
are answered whoever else connects.
"""

import asyncio
import errno
import resource
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from itertools import chain
from typing import Any, NamedTuple, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from kcr.api.bindaddress import MAX_CONNECTIONS
from kcr.log import get_logger
from kcr.log.ratelimited import RateLimitedLogger

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_BACKLOG = 1024
# So many are accepted before other work of the loop.
_AT_ONCE = 64
# So many handshakes go on at a time, for each takes memory; one may be given up for another after a while.
_HANDSHAKES = 100
_SLOW_SECONDS = 1.0
# Wait so long where the process has no descriptors left.
_PAUSE_SECONDS = 1.0
MAX_HEADERS = 128
MAX_HEADER_BYTES = 8190
# Descriptors reserved for everything else; half of all where there are few.
_SPARE_DESCRIPTORS = 64

_log = get_logger("kcr.http")


class Patience(NamedTuple):
    """How many seconds a client may take, before its connection is closed.

    Attributes:
        speak: For the first byte of a connection.
        handshake: For TLS.
        head: For the head of a request, from its first byte on.
        body: For its body.
        response: To read a response that is no stream.
        idle: For the next request.
    """

    speak: float = 10.0
    handshake: float = 5.0
    head: float = 10.0
    body: float = 30.0
    response: float = 30.0
    idle: float = 90.0


class _Connection(web.RequestHandler):
    """One connection. aiohttp itself answers errors in plain text, and logs a traceback of each."""

    patience: Patience
    # Closes it unless what it waits for comes.
    deadline: asyncio.TimerHandle | None = None
    # Whether a request is served, and whether its response is one that is sent as a whole.
    is_busy = is_whole = False

    def expect(self, seconds: float) -> None:
        """Close the connection after a time."""
        self.expect_nothing()
        if self.transport is not None:
            self.deadline = asyncio.get_running_loop().call_later(seconds, self.transport.abort)

    def expect_nothing(self) -> None:
        """Leave the connection open."""
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None

    def data_received(self, data: bytes) -> None:
        """Read data; between requests it is the head of the next one, which has to end."""
        if self.deadline is None and not self.is_busy:
            self.expect(self.patience.head)
        super().data_received(data)

    def pause_writing(self) -> None:
        """Wait for the client, which does not read."""
        super().pause_writing()
        if self.is_whole:
            self.expect(self.patience.response)

    def resume_writing(self) -> None:
        """Go on, for the client reads."""
        super().resume_writing()
        self.expect_nothing()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Log an error, and return the last response of the connection."""
        if isinstance(exc, HttpProcessingError | web.RequestPayloadError):
            status, text = _unreadable(exc)
            _log.warning("request refused", client=request.remote, code=status, error=text)
        else:
            text = f"Internal error occurred: {type(exc).__name__}"
            _log.error(f"{request.method} {request.raw_path} failed", exc_info=exc)
        if request.writer.output_size > 0:
            # Part of a response has been sent; no other can follow.
            self.force_close()
        response = web.json_response(_status(status, text), status=status)
        response.force_close()
        return response

    def log_exception(self, *args: Any, **kwargs: Any) -> None:
        """Log an unexpected exception, but not that the rest of a body is malformed.

        aiohttp reads and drops that rest after the response, so that the client receives the response, and closes the
        connection when it cannot. The request has its response, and the log the line of `handle_error` if it needs one.
        """
        if not isinstance(kwargs.get("exc_info"), HttpProcessingError | web.RequestPayloadError):
            super().log_exception(*args, **kwargs)


class Server(web.Server):
    """Calls a handler for each request, whatever its path and method.

    Attributes:
        patience: How long clients may take.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        max_body: int,
        max_connections: int = MAX_CONNECTIONS,
        patience: Patience | None = None,
    ) -> None:
        """Make a server; `Site` makes it listen.

        Args:
            handler: Answers a request. It is cancelled when the client disconnects.
            max_body: The maximum size of a body, in bytes.
            max_connections: How many connections may be open, where descriptors allow it.
            patience: How long clients may take.
        """

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            connection = cast(_Connection, request.protocol)
            connection.is_busy, connection.is_whole = True, False
            connection.expect_nothing()
            if request.can_read_body:
                connection.expect(self.patience.body)
                request.content.on_eof(connection.expect_nothing)
            try:
                await _continue(request)
                response = await handler(request)
            finally:
                connection.is_busy = False
            connection.is_whole = isinstance(response, web.Response)
            return response

        super().__init__(
            handle,
            request_factory=partial(web.BaseRequest, loop=asyncio.get_running_loop(), client_max_size=max_body),
            handler_cancellation=True,
        )
        self.patience: Patience = patience or Patience()
        self._max_connections = max_connections
        self._refused = RateLimitedLogger(_log)
        # Those that are open, also while they are closed: TLS says goodbye.
        self._transports: dict[web.RequestHandler, asyncio.Transport] = {}
        self._is_idle = asyncio.Event()

    def __call__(self) -> web.RequestHandler:
        """Return the protocol of a new connection."""
        connection = _Connection(
            self,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=self.patience.idle,
            access_log=None,  # type: ignore[arg-type]  # None is none, whatever the annotation says
            max_headers=MAX_HEADERS,
            max_field_size=MAX_HEADER_BYTES,
        )
        connection.patience = self.patience
        return connection

    @property
    def limit(self) -> int:
        """How many connections may be open; the limit of descriptors may change at run time."""
        return min(self._max_connections, _most_descriptors())

    @property
    def count(self) -> int:
        """How many connections are open."""
        return len(self._transports)

    def close_idle(self) -> bool:
        """Close the connection that has been idle for longest; return whether there is one."""
        for handler, transport in self._transports.items():
            if not cast(_Connection, handler).is_busy and not transport.is_closing():
                transport.abort()
                self.too_many("closing idle ones")
                return True
        return False

    def too_many(self, what: str) -> None:
        """Say what happens to connections, once in 30 s."""
        self._refused.error(
            asyncio.get_running_loop().time(),
            f"too many connections, {what}",
            connections_limit=self.limit,
            remedy="see who connects; more are open where ulimit -n is higher",
        )

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Count a new connection. One that sends no request is closed after a while."""
        super().connection_made(handler, transport)
        self._transports[handler] = transport
        cast(_Connection, handler).expect(self.patience.head)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """Forget a connection."""
        cast(_Connection, handler).expect_nothing()
        self._transports.pop(handler, None)
        if not self._transports:
            self._is_idle.set()
        super().connection_lost(handler, exc)

    async def wait_closed(self, seconds: float) -> None:
        """Wait until all connections are closed, after `shutdown`; abort those that are not by then."""
        if self._transports:
            self._is_idle.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._is_idle.wait()
        for transport in self._transports.values():
            transport.abort()
        # Their files are closed in the next iterations of the loop.
        for _ in range(3):
            await asyncio.sleep(0)


def _most_descriptors() -> int:
    """Return how many connections leave enough descriptors; the limit of the process may change at run time."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return sys.maxsize
    return max(files - _SPARE_DESCRIPTORS, files // 2)


async def _continue(request: web.BaseRequest) -> None:
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        # This is no part of the answer.
        request.writer.output_size = 0


def _unreadable(error: Exception) -> tuple[int, str]:
    if isinstance(error, LineTooLong) or "Too many headers" in str(error):
        status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        limits = f"at most {MAX_HEADERS} headers of {MAX_HEADER_BYTES} bytes are accepted"
        return status.value, f"{status.value} {status.phrase}: {limits}"
    if isinstance(error.__cause__, HttpProcessingError):
        error = error.__cause__
    text = (error.message if isinstance(error, HttpProcessingError) else str(error)).strip() or type(error).__name__
    return 400, f"400 Bad Request: {text.splitlines()[0].rstrip(':')}"


def _status(code: int, message: str) -> dict[str, object]:
    reasons = {400: "BadRequest", 431: "RequestHeaderFieldsTooLarge", 500: "InternalError"}
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reasons.get(code, ""), "code": code,
    }  # fmt: skip


class Site(web.BaseSite):
    """Listens for a server of `kcr.serving.httpserver`; a runner of aiohttp stops it."""

    __slots__ = ("_address",)

    def __init__(
        self,
        runner: web.ServerRunner,
        host: str | None,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Make a site; it does not listen yet.

        Args:
            runner: With the server.
            host: The address, None for all.
            port: The port, 0 for any.
            tls: With the certificate; None for plain HTTP.
        """
        super().__init__(runner, ssl_context=tls)
        self._address = (host, port)

    name = ""

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: The address cannot be bound.
        """
        await super().start()
        server = self._runner.server
        assert isinstance(server, Server)
        sockets = await _bound(*self._address)
        self._server = cast(asyncio.AbstractServer, _Acceptor(server, sockets, self._ssl_context))


async def _bound(host: str | None, port: int) -> list[socket.socket]:
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

    def __init__(self, server: Server, sockets: list[socket.socket], tls: ssl.SSLContext | None) -> None:
        self.sockets = sockets
        self._http, self._tls, self._loop = server, tls, asyncio.get_running_loop()
        # In the order in which they came, each with its deadline; those that spoke wait for a handshake.
        self._silent: dict[socket.socket, asyncio.TimerHandle] = {}
        self._spoken: dict[socket.socket, asyncio.TimerHandle] = {}
        self._greeting: dict[socket.socket, tuple[float, asyncio.Task[None]]] = {}
        self._resume()

    def close(self) -> None:
        """Stop listening, and close what is not the server's yet."""
        for one in self.sockets:
            self._loop.remove_reader(one)
            one.close()
        self.sockets = []
        while self._make_room(idle=False):
            pass

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
            count = len(self._silent) + len(self._spoken) + len(self._greeting) + self._http.count
            is_full = count >= self._http.limit or len(self._silent) >= MAX_CONNECTIONS
            if is_full and not self._make_room():
                connection.close()
                self._http.too_many("closing new ones")
                continue
            connection.setblocking(False)
            self._silent[connection] = self._loop.call_later(self._http.patience.speak, self._drop, connection)
            self._loop.add_reader(connection, self._speaks, connection)

    def _make_room(self, *, idle: bool = True) -> bool:
        """Close the oldest connection that says nothing, or is idle; return whether there is one."""
        for connection in chain(self._silent, self._spoken):
            self._drop(connection)
            return True
        for connection in self._greeting:
            self._abandon(connection)
            return True
        return idle and self._http.close_idle()

    def _abandon(self, connection: socket.socket) -> None:
        self._greeting.pop(connection)[1].cancel()
        # The task would not, where it has not begun.
        self._loop.call_soon(connection.close)

    def _drop(self, connection: socket.socket) -> None:
        self._loop.remove_reader(connection)
        (self._silent if connection in self._silent else self._spoken).pop(connection).cancel()
        connection.close()

    def _speaks(self, connection: socket.socket) -> None:
        try:
            said = connection.recv(1, socket.MSG_PEEK)
        except OSError:
            said = b""
        if not said:
            # A check whether the port is open, for instance.
            self._drop(connection)
            return
        self._loop.remove_reader(connection)
        self._spoken[connection] = self._silent.pop(connection)
        self._greet_some()

    def _greet_some(self) -> None:
        """Begin handshakes, as many as may go on at a time, the newest first: the others may never go on."""
        now = self._loop.time()
        while self._spoken and self.sockets:
            for oldest, (since, _) in self._greeting.items():
                if len(self._greeting) < _HANDSHAKES:
                    break
                if now < since + _SLOW_SECONDS:
                    self._loop.call_at(since + _SLOW_SECONDS, self._greet_some)
                    return
                self._abandon(oldest)
                break
            connection, timer = self._spoken.popitem()
            timer.cancel()
            self._greeting[connection] = now, self._loop.create_task(self._greet(connection))

    async def _greet(self, connection: socket.socket) -> None:
        """Give a connection to the server, after the handshake of TLS."""
        seconds = self._http.patience.handshake if self._tls is not None else None
        try:
            # What fails is the client's: another protocol, a certificate that it does not trust, no patience.
            with suppress(OSError, TimeoutError):
                await self._loop.connect_accepted_socket(
                    self._http, connection, ssl=self._tls, ssl_handshake_timeout=seconds
                )
        finally:
            self._greeting.pop(connection, None)
            self._greet_some()
