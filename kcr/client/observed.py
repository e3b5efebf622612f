"""Hearing of every request, for metrics."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from kcr.client.transport import Request, Response, Transport
from kcr.errors import TransportError

# Called with the method, the status code (0 when no answer came) and the seconds until the answer began.
OnRequest = Callable[[str, int, float], None]


class ObservedTransport:
    """Tells of each request that another transport sends; each retry and each watch is one."""

    def __init__(self, inner: Transport, on_request: OnRequest) -> None:
        self._inner = inner
        self._on_request = on_request

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        """Send one request."""
        now = asyncio.get_running_loop().time
        began, is_answered = now(), False
        try:
            async with self._inner.send(request) as response:
                is_answered = True
                self._on_request(request.method, response.status, now() - began)
                yield response
        except TransportError:
            if not is_answered:
                self._on_request(request.method, 0, now() - began)
            raise
