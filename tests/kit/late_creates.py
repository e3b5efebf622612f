"""A transport whose creates arrive late, as behind a proxy, whether the sender still waits for the answer or not."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from kcr.client import Request, Response, Transport
from kcr.errors import TransportError
from kcr.testing.source import MadeUp


class LateCreates:
    """Delivers the creates of one resource late, by a task of its own: a cancelled sender takes none back.

    Applies count as creates.
    """

    def __init__(
        self,
        inner: Transport,
        group: asyncio.TaskGroup,
        plural: str,
        *,
        seconds: Callable[[], float],
        cut_after: float | None = None,
        is_answered: bool = True,
    ) -> None:
        """Send all other requests at once.

        Args:
            inner: Reaches the server.
            group: Has the tasks that deliver.
            plural: The resource, as in the path.
            seconds: Returns how late the next create arrives.
            cut_after: When the connection of its sender is cut; None for never.
            is_answered: Whether the sender gets the answers; else it waits for the timeout of the request.
        """
        self.is_late = True
        # The bodies of the creates that have not arrived.
        self.under_way: list[bytes] = []
        self.inner, self._group, self._plural = inner, group, plural
        self._seconds, self._cut_after, self._is_answered = seconds, cut_after, is_answered

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        """Send one request."""
        if not self.is_late or not self._is_create(request):
            async with self.inner.send(request) as response:
                yield response
            return
        delivery = self._group.create_task(self._deliver(request._replace(fence=None), self._seconds()))
        cut_after = self._cut_after if self._is_answered else request.timeout_seconds or 30
        try:
            async with asyncio.timeout(cut_after):
                answer = await asyncio.shield(delivery)
                if not self._is_answered:
                    await asyncio.get_running_loop().create_future()
        except TimeoutError:
            raise TransportError(f"{request.method} {request.target}: the connection was cut") from None
        yield answer

    def _is_create(self, request: Request) -> bool:
        path = request.target.partition("?")[0]
        # Only those of one object that is applied.
        is_apply = "apply-patch" in request.headers.get("content-type", "")
        return path.split("/")[-2 if is_apply else -1] == self._plural and (is_apply or request.method == "POST")

    async def _deliver(self, request: Request, seconds: float) -> MadeUp:
        self.under_way.append(request.body)
        try:
            await asyncio.sleep(seconds)
        finally:
            self.under_way.remove(request.body)
        async with self.inner.send(request) as response:
            return MadeUp(response.status, await response.read(), response.headers)
