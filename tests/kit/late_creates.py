"""A transport whose creates arrive late, as behind a proxy, whether the sender still waits for the answer or not."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from kcr.client import Request, Response, Transport
from kcr.errors import TransportError
from kcr.testing.answers import MadeUp


class LateCreates:
    """Delivers the creates of one resource late, by a task of its own: a cancelled sender takes none back."""

    def __init__(
        self,
        inner: Transport,
        group: asyncio.TaskGroup,
        plural: str,
        *,
        seconds: Callable[[], float],
        cut_after: float | None = None,
    ) -> None:
        """Send all other requests at once.

        Args:
            inner: Reaches the server.
            group: Has the tasks that deliver.
            plural: The resource, as in the path.
            seconds: Returns how late the next create arrives.
            cut_after: When the connection of its sender is cut; None for never.
        """
        self.is_late = True
        self._inner, self._group, self._path = inner, group, f"/{plural}"
        self._seconds, self._cut_after = seconds, cut_after

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        """Send one request."""
        if request.method != "POST" or not self.is_late or not request.target.partition("?")[0].endswith(self._path):
            async with self._inner.send(request) as response:
                yield response
            return
        delivery = self._group.create_task(self._deliver(request._replace(fence=None), self._seconds()))
        try:
            async with asyncio.timeout(self._cut_after):
                answer = await asyncio.shield(delivery)
        except TimeoutError:
            raise TransportError(f"{request.method} {request.target}: the connection was cut") from None
        yield answer

    async def _deliver(self, request: Request, seconds: float) -> MadeUp:
        await asyncio.sleep(seconds)
        async with self._inner.send(request) as response:
            return MadeUp(response.status, await response.read(), response.headers)
