"""HTTP servers on aiohttp: responses and log lines when a request cannot be served.

The response is always a Status, and the log has one line: a handler that raises is answered 500 and logged as an error
with its traceback; a malformed request is answered 400, oversized headers 431, and logged as a warning.

Connections cannot exhaust the memory or the file descriptors of the process: their number has a limit, and beyond it
the oldest idle one is closed for a new one. A request that does not arrive, and a response that is not read, end with
their connection after a while.
"""

import asyncio
import resource
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from kcr.log import get_logger
from kcr.log.ratelimited import RateLimitedLogger

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

# How many connections a server has at most, where descriptors allow it.
MAX_CONNECTIONS = 1000
MAX_HEADERS = 128
MAX_HEADER_BYTES = 8190
# Descriptors reserved for everything else; half of all where there are few.
_SPARE_DESCRIPTORS = 64

_log = get_logger("kcr.http")


class Patience(NamedTuple):
    """How long a client may take, before its connection is closed.

    Attributes:
        head: For the head of a request, from the first byte on, in seconds.
        body: For its body, in seconds.
        response: To read what the system does not keep of a response, in seconds; streams wait as long as need be.
        idle: For the next request, in seconds.
    """

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
        """Close the connection after a time, unless `expect_nothing` is called."""
        self.expect_nothing()
        if self.transport is not None:
            self.deadline = asyncio.get_running_loop().call_later(seconds, self.transport.abort)

    def expect_nothing(self) -> None:
        """Let the connection be as it is."""
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
    """Calls a handler for each request, whatever its path and method."""

    def __init__(
        self,
        handler: Handler,
        *,
        max_body: int,
        max_connections: int = MAX_CONNECTIONS,
        patience: Patience | None = None,
    ) -> None:
        """Make a server; `kcr.serving.sockets.Site` makes it listen.

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
                connection.expect(self._patience.body)
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
        self._patience = patience or Patience()
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
            keepalive_timeout=self._patience.idle,
            access_log=None,  # type: ignore[arg-type]  # None is none, whatever the annotation says
            max_headers=MAX_HEADERS,
            max_field_size=MAX_HEADER_BYTES,
        )
        connection.patience = self._patience
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
                self._too_many("closing idle ones")
                return True
        return False

    def refuse(self) -> None:
        """Say that a new connection was closed at once."""
        self._too_many("closing new ones")

    def _too_many(self, what: str) -> None:
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
        cast(_Connection, handler).expect(self._patience.head)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """Forget a connection."""
        cast(_Connection, handler).expect_nothing()
        self._transports.pop(handler, None)
        if not self._transports:
            self._is_idle.set()
        super().connection_lost(handler, exc)

    async def wait_closed(self, seconds: float) -> None:
        """Wait until all connections are closed, after `shutdown`; abort those that are not by then."""
        if not self._transports:
            return
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
    """Answer `Expect: 100-continue`."""
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        # This is no part of the answer.
        request.writer.output_size = 0


def _unreadable(error: Exception) -> tuple[int, str]:
    """Return code and message for a malformed request."""
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
