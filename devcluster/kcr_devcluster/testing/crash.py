"""A transport that fails after a chosen write, as when the process crashes.

It cuts the connection and leaves the tasks alone: cancelling them is no crash, because `finally` runs.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Annotated, cast

from msgspec import Meta

from kcr.annotations import Count
from kcr.arguments import checked
from kcr.client import Request, Response, Transport, UpgradedResponse
from kcr_devcluster.testing.losses import Loss, lost

_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class CrashingTransport:
    """Forwards requests, counts the writes, and crashes or loses a reply at a chosen one.

    Attributes:
        writes: How many writes have been executed.
        crashed: Done once the connection is cut: nothing more is sent or answered.
    """

    @checked
    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self._crash_after: int | None = None
        self._lost_replies: dict[int, Loss] = {}
        self.writes: int = 0
        self.crashed: asyncio.Event = asyncio.Event()

    @checked
    def crash_after(self, write: Count) -> None:
        """Cut the connection once write number `write` (from 1) is executed; 0 cuts it now."""
        self._crash_after = write
        if self.writes >= write:
            self.crashed.set()

    @checked
    def lose_reply(self, write: Annotated[int, Meta(ge=1)], loss: Loss = "silence") -> None:
        """Let write number `write` (from 1) happen, and its answer be lost.

        Args:
            write: The number of the write.
            loss: The replacement: nothing, so that the caller gets a TransportError; a body that cannot be read
                (`cut`, `garbage`, `other`); or a proxy's page (`404`, `502`).
        """
        self._lost_replies[write] = loss

    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        """Send one request, or hang after the crash."""
        return self._send(request)

    @asynccontextmanager
    async def _send(self, request: Request) -> AsyncIterator[Response]:
        await self._hang_if_crashed()
        async with self.inner.send(request) as reply:
            response = reply
            if request.method in _WRITES:
                self._count()
                if (loss := self._lost_replies.get(self.writes)) is not None:
                    response = await lost(request, reply, loss)
            await self._hang_if_crashed()
            yield _CrashingResponse(response, self._hang_if_crashed)

    def _count(self) -> None:
        self.writes += 1
        if self.writes == self._crash_after:
            self.crashed.set()

    async def _hang_if_crashed(self) -> None:
        if self.crashed.is_set():
            await asyncio.get_running_loop().create_future()


class _CrashingResponse:
    """A response that stops in the middle when the process crashes."""

    def __init__(self, inner: Response, hang_if_crashed: Callable[[], Awaitable[None]]) -> None:
        self._inner = inner
        self._hang_if_crashed = hang_if_crashed

    @property
    def status(self) -> int:
        return self._inner.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._inner.headers

    async def read(self) -> bytes:
        body = await self._inner.read()
        await self._hang_if_crashed()
        return body

    async def lines(self) -> AsyncIterator[bytes]:
        async for line in self._inner.lines():
            await self._hang_if_crashed()
            yield line

    async def send(self, message: bytes) -> None:
        await self._hang_if_crashed()
        await cast("UpgradedResponse", self._inner).send(message)
