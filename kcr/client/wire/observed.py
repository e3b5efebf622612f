"""Hearing of every request, for metrics."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Protocol

from kcr.client.wire.transport import Request, Response, Transport
from kcr.errors import TransportError


class RequestObserver(Protocol):
    """Hears of requests; `Metrics.requests` is one."""

    def answered(self, method: str, code: int, seconds: float, sent: int | None, is_retry: bool) -> None:
        """Count a request, retry or watch whose answer has begun, or has not come.

        Args:
            method: Such as `GET`.
            code: The status code, 0 when no answer came.
            seconds: Until the answer began.
            sent: The size of the body, 0 for none; None for a watch.
            is_retry: Whether it had been sent before.
        """
        ...

    def received(self, method: str, size: int) -> None:
        """Count an answer that was read to its end, with the size of its body after decompression; never a watch."""
        ...


class ObservedTransport:
    """Tells of each request that another transport sends; each retry and each watch is one."""

    def __init__(self, inner: Transport, observer: RequestObserver) -> None:
        self._inner = inner
        self._observer = observer

    def send(self, request: Request) -> "_Exchange":
        """Send one request."""
        return _Exchange(self._inner.send(request), request, self._observer)


class _Exchange:
    """One request on its way, and its response: each layer more would cost a request more than it does."""

    __slots__ = ("_inner", "_observer", "_request", "_response", "headers", "status")

    status: int
    headers: Mapping[str, str]
    _response: Response

    def __init__(self, inner: AbstractAsyncContextManager[Response], request: Request, observer: RequestObserver):
        self._inner = inner
        self._request = request
        self._observer = observer

    async def __aenter__(self) -> Response:
        now, request = asyncio.get_running_loop().time, self._request
        sent = len(request.body) if request.timeout_seconds is not None else None
        began = now()
        try:
            response = self._response = await self._inner.__aenter__()
        except TransportError:
            self._observer.answered(request.method, 0, now() - began, sent, request.is_retry)
            raise
        self.status, self.headers = response.status, response.headers
        self._observer.answered(request.method, self.status, now() - began, sent, request.is_retry)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, trace)

    async def read(self) -> bytes:
        body = await self._response.read()
        self._observer.received(self._request.method, len(body))
        return body

    def lines(self) -> AsyncIterator[bytes]:
        return self._response.lines()
