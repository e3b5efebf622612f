"""An API server that takes its time, and refuses requests when a test says so."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from kcr.client import Request, Response, Transport
from kcr.errors import ApiError
from kcr.testing.fakes import MadeUp, refusal

BODY = b'{"kind":"Pod","metadata":{"name":"a","namespace":"default"}}'


class BusyServer:
    """A transport whose requests take a while; watches are passed on untouched, and not counted.

    Attributes:
        refuse: Returns the refusal of a request, None when the server does its work; it gets the number of requests
            that are executed just now. A refusal takes a millisecond.
        seconds: How long the execution of a request takes, by the number of those that are executed.
        sent: How many requests came, by the second.
        done: How many were executed, by the second.
        targets: The targets of all that came, in their order.
    """

    def __init__(self, inner: Transport | None = None, seconds: Callable[[int], float] = lambda _: 0.01) -> None:
        """Make a server that does its work: that of another transport, or it answers with a Pod."""
        self.refuse: Callable[[int], ApiError | None] = lambda _: None
        self.seconds = seconds
        self.sent: Counter[int] = Counter()
        self.done: Counter[int] = Counter()
        self.targets: list[str] = []
        self.inner = inner
        self._executed = 0

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        if request.timeout_seconds is None:
            assert self.inner is not None
            async with self.inner.send(request) as response:
                yield response
            return
        now = asyncio.get_running_loop().time
        self.sent[int(now())] += 1
        self.targets.append(request.target)
        refused = self.refuse(self._executed)
        if refused is not None:
            await asyncio.sleep(0.001)
            yield refusal(refused)
            return
        self._executed += 1
        try:
            await asyncio.sleep(self.seconds(self._executed))
        finally:
            self._executed -= 1
        self.done[int(now())] += 1
        if self.inner is None:
            yield MadeUp(200, BODY)
            return
        async with self.inner.send(request) as response:
            yield response


def in_seconds(counts: Counter[int], first: float, last: float) -> float:
    """Return how many there were per second from the second `first` up to `last`."""
    return sum(counts[second] for second in range(int(first), int(last))) / (int(last) - int(first))
