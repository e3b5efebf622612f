"""HTTP servers on aiohttp: responses and log lines when a request cannot be served.

The response is always a Status, and the log has one line: a handler that raises is answered 500 and logged as an error
with its traceback; a malformed request is answered 400, oversized headers 431, and logged as a warning.

Connections cannot exhaust the file descriptors of the process: some are reserved for its own work, and beyond that new
connections are closed at once. (asyncio logs when it cannot accept any, uvloop closes them silently.)
"""

import asyncio
import resource
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from kcr.log import get_logger
from kcr.log.ratelimited import RateLimitedLogger

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

# How long a new connection may take to send its first request. Source: apiserver/pkg/server/secure_serving.go,
# ReadHeaderTimeout.
HEADER_SECONDS = 32.0
MAX_HEADERS = 128
MAX_HEADER_BYTES = 8190
# Descriptors reserved for everything else; half of all where there are few.
_SPARE_DESCRIPTORS = 64

_log = get_logger("kcr.http")


class _Connection(web.RequestHandler):
    """One connection. aiohttp itself answers errors in plain text, and logs a traceback of each."""

    # Closes it unless it sends a request.
    silence: asyncio.Handle

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

    def __init__(self, handler: Handler, *, max_body: int, keepalive_seconds: float) -> None:
        """Make a server; a runner of aiohttp makes it listen.

        Args:
            handler: Answers a request. It is cancelled when the client disconnects.
            max_body: The maximum size of a body, in bytes.
            keepalive_seconds: How long an idle connection stays open.
        """

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            cast(_Connection, request.protocol).silence.cancel()
            await _continue(request)
            return await handler(request)

        super().__init__(
            handle,
            request_factory=partial(web.BaseRequest, loop=asyncio.get_running_loop(), client_max_size=max_body),
            handler_cancellation=True,
        )
        self._keepalive_seconds = keepalive_seconds
        self._refused = RateLimitedLogger(_log)
        # Those that are open, also while they are closed: TLS says goodbye.
        self._transports: dict[web.RequestHandler, asyncio.Transport] = {}
        self._is_idle = asyncio.Event()

    def __call__(self) -> web.RequestHandler:
        """Return the protocol of a new connection."""
        return _Connection(
            self,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=self._keepalive_seconds,
            access_log=None,  # type: ignore[arg-type]  # None is none, whatever the annotation says
            max_headers=MAX_HEADERS,
            max_field_size=MAX_HEADER_BYTES,
        )

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Count a new connection, and close it when there are too many, with one line in 30 s.

        One that sends no request is closed after a while; from the first request on, aiohttp closes idle ones.
        """
        super().connection_made(handler, transport)
        self._transports[handler] = transport
        silence = asyncio.get_running_loop().call_later(HEADER_SECONDS, transport.abort)
        cast(_Connection, handler).silence = silence
        limit = _max_connections()
        if len(self.connections) <= limit:
            return
        transport.abort()
        self._refused.error(
            asyncio.get_running_loop().time(),
            "too many connections, closing new ones",
            connections_limit=limit,
            remedy="raise the limit with ulimit -n",
        )

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """Forget a connection."""
        cast(_Connection, handler).silence.cancel()
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


def _max_connections() -> int:
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
