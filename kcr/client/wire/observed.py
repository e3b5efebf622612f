"""Hearing of every request, for metrics and traces.

A client span follows OpenTelemetry's conventions for HTTP: one for each attempt, named by method and path template. It
ends when the response has been read, and that of a watch when the response has begun, for a span is shown only after
its end.

Source: open-telemetry/semantic-conventions, docs/http/http-spans.md, HTTP client span.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from kcr.client.context import WRITE_CONTEXT
from kcr.client.loops import HomeLoop
from kcr.client.wire.transport import Request, Response, Transport, path_template
from kcr.errors import TransportError
from kcr.tracing import ActiveSpan, find_tracer, trace_headers

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer


class RequestObserver(Protocol):
    """Receives requests and results, on one event loop, that of the first request; `Metrics.requests` is one."""

    def answered(self, request: Request, code: int, seconds: float) -> None:
        """Count a request, retry or watch whose answer has begun, or has not come.

        Args:
            request: The request.
            code: The status code, 0 when no answer came.
            seconds: Until the answer began.
        """
        ...

    def received(self, request: Request, size: int) -> None:
        """Count an answer that was read to its end, with the size of its body after decompression; never a watch."""
        ...


class ObservedTransport:
    """Reports requests to an observer, else to the sending manager's metrics; each retry and each watch is one."""

    def __init__(self, inner: Transport, observer: RequestObserver | None) -> None:
        self.inner = inner
        self._observer = observer
        self.server: str = getattr(inner, "server", "")  # empty for one in process
        self._home = HomeLoop()

    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        """Send one request."""
        exchange, manager = self.inner.send(request), WRITE_CONTEXT.get().manager
        observer = self._observer
        if manager is None:
            return exchange if observer is None else _Exchange(exchange, request, (observer,), self._home.call)
        if observer is None:
            observer = manager.metrics.requests(urlsplit(self.server).netloc or "in-process")
        return _Exchange(exchange, request, (observer, *manager.request_observers), self._home.call)


class _Exchange:
    """One request on its way, and its response: each layer more would cost a request more than it does."""

    __slots__ = ("_call", "_inner", "_observers", "_request", "_response", "headers", "status")

    status: int
    headers: Mapping[str, str]
    _response: Response

    def __init__(
        self, inner: AbstractAsyncContextManager[Response], request: Request, observers: Sequence[RequestObserver],
        call: Callable[..., None],
    ) -> None:  # fmt: skip
        self._inner = inner
        self._call = call
        self._request = request
        self._observers = observers

    async def __aenter__(self) -> Response:
        now, self.status = asyncio.get_running_loop().time, 0
        began = now()
        try:
            response = self._response = await self._inner.__aenter__()
            self.status, self.headers = response.status, response.headers
        except TransportError:
            self._answered(now() - began)
            raise
        self._answered(now() - began)
        return response if self.status == 101 else self

    def _answered(self, seconds: float) -> None:
        for one in self._observers:
            self._call(one.answered, self._request, self.status, seconds)

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Coroutine[Any, Any, bool | None]:
        return self._inner.__aexit__(kind, error, trace)

    async def read(self) -> bytes:
        body = await self._response.read()
        for one in self._observers:
            self._call(one.received, self._request, len(body))
        return body

    def lines(self) -> AsyncIterator[bytes]:
        return self._response.lines()


class TracedTransport:
    """Makes a client span of each request that another transport sends, when the program has a tracer provider."""

    def __init__(self, inner: ObservedTransport) -> None:
        self.inner = inner

    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        """Send one request."""
        tracer = find_tracer()
        return self.inner.send(request) if tracer is None else _Traced(self.inner, request, tracer)


class _Traced:
    """One request on its way, within its span."""

    def __init__(self, transport: ObservedTransport, request: Request, tracer: "Tracer") -> None:
        self._transport = transport
        self._request = request
        self._tracer = tracer

    async def __aenter__(self) -> Response:
        request, attributes = self._request, _attributes(self._request, self._transport.server)
        span = self._span = ActiveSpan(
            self._tracer, f"{request.method} {attributes['url.template']}", attributes, is_request=True
        )
        sent = request._replace(headers={**request.headers, **trace_headers(span)})
        self._exchange = self._transport.send(sent)
        span.enter()
        try:
            response = await self._exchange.__aenter__()
        except BaseException as error:
            self._fail(error)
            span.end()
            raise
        finally:
            span.leave()
        span.span.set_attribute("http.response.status_code", response.status)
        if response.status >= 400:
            span.span.set_attribute("error.type", str(response.status))
            span.fail("")
        if request.timeout_seconds is None:
            span.end()
        return response

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if isinstance(error, TransportError | asyncio.CancelledError):
            self._fail(error)
        try:
            return await self._exchange.__aexit__(kind, error, trace)
        finally:
            self._span.end()

    def _fail(self, error: BaseException) -> None:
        if not self._span.span.is_recording():
            # A watch has ended.
            return
        self._span.span.set_attribute("error.type", type(error).__qualname__)
        is_cancelled = isinstance(error, asyncio.CancelledError)
        self._span.fail("cancelled" if is_cancelled else str(error), None if is_cancelled else error)


def _attributes(request: Request, server: str) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "http.request.method": request.method,
        "url.full": server + request.target,
        "url.template": path_template(request.target),
    }
    if server:
        url = urlsplit(server)
        attributes["server.address"] = url.hostname or ""
        attributes["server.port"] = url.port or (443 if url.scheme == "https" else 80)
    if request.resend_count:
        attributes["http.request.resend_count"] = request.resend_count
    return attributes
