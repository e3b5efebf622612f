"""A transport to an embedded server on which everything goes wrong now and then, by chance but repeatably."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from kcr.client import Request, Response, Transport
from kcr.errors import GoneError, ServerError, TooManyRequestsError, TransportError
from kcr.testing.source import MadeUp, made, refusal
from tests.kit.transports import ChangedResponse


class RandomFaults:
    """Refuses, delays and loses calls; cuts, ends, tears, freezes, delays and repeats watches.

    A frozen watch stays frozen when the faults are over: it is for the client to find out.

    Attributes:
        is_over: Whether requests pass unharmed now.
        seen: What went wrong how often.
    """

    def __init__(self, inner: Transport, random: Random, share: float = 1.0) -> None:
        """Let things go wrong, or only a share of them."""
        self.is_over = False
        self.seen: dict[str, int] = {}
        self.inner = inner
        self._random = random
        self._share = share

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        answer = await self._before(request)
        if answer is not None:
            yield answer
            return
        async with self.inner.send(request) as response:
            if self.strikes("lost reply", 0.03):
                raise TransportError("the reply was lost")
            is_watch = "watch=true" in request.target
            yield ChangedResponse(response, self.disturb) if is_watch else response

    async def _before(self, request: Request) -> MadeUp | None:
        if self.strikes("late", 0.3):
            await asyncio.sleep(self._random.random() * 3)
        if self.strikes("refused", 0.05):
            raise TransportError("connection refused")
        if self.strikes("busy", 0.05):
            return refusal(made(TooManyRequestsError, self._random.randrange(1, 5)))
        if self.strikes("broken", 0.05):
            return refusal(made(ServerError))
        is_resumed = "continue=" in request.target or "resourceVersion=" in request.target
        if is_resumed and self.strikes("expired", 0.1):
            return refusal(made(GoneError))
        return None

    def strikes(self, what: str, chance: float) -> bool:
        """Whether this goes wrong now."""
        if self.is_over or self._random.random() >= chance * self._share:
            return False
        self.seen[what] = self.seen.get(what, 0) + 1
        return True

    async def disturb(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield what arrives of a watch."""
        async for line in lines:
            if self.strikes("late line", 0.2):
                await asyncio.sleep(self._random.random() * 10)
            if self.strikes("cut", 0.03):
                raise TransportError("the watch was cut")
            if self.strikes("torn", 0.02):
                yield line[: len(line) // 2]
                raise TransportError("the watch was cut")
            if self.strikes("frozen", 0.03):
                await asyncio.get_running_loop().create_future()
            yield line
            if self.strikes("duplicated", 0.1):
                yield line
            if self.strikes("ended", 0.03):
                return
