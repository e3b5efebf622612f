"""Hearing of every request, for metrics."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType

from kcr.client.wire.transport import Request, Response, Transport
from kcr.errors import TransportError

# Called with the method, the status code (0 when no answer came) and the seconds until the answer began.
OnRequest = Callable[[str, int, float], None]


class ObservedTransport:
    """Tells of each request that another transport sends; each retry and each watch is one."""

    def __init__(self, inner: Transport, on_request: OnRequest) -> None:
        self._inner = inner
        self._on_request = on_request

    def send(self, request: Request) -> "_Exchange":
        """Send one request."""
        return _Exchange(self._inner.send(request), request.method, self._on_request)


class _Exchange:
    """One request on its way. A class, because a generator in every layer would cost a request more than it does."""

    __slots__ = ("_inner", "_method", "_on_request")

    def __init__(self, inner: AbstractAsyncContextManager[Response], method: str, on_request: OnRequest) -> None:
        self._inner = inner
        self._method = method
        self._on_request = on_request

    async def __aenter__(self) -> Response:
        now = asyncio.get_running_loop().time
        began = now()
        try:
            response = await self._inner.__aenter__()
        except TransportError:
            self._on_request(self._method, 0, now() - began)
            raise
        self._on_request(self._method, response.status, now() - began)
        return response

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, trace)
