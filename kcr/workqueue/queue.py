"""The queue between watch events and workers: each key at most once, and in one pair of hands at a time."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from kcr.errors import QueueClosedError
from kcr.metrics import QueueMetrics
from kcr.workqueue.delaying import Delays
from kcr.workqueue.ratelimit import RateLimiter, default_limiter

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Hands out keys in the order of their arrival.

    A key added n times before its turn is handed out once; added while a worker holds it, it comes round
    once more after `done`. No key is lost, and no two workers hold the same one. All but `get`, `item` and
    `drain` are plain calls, hence atomic; they are made on the loop's thread only.

    Source: client-go/util/workqueue, queue.go and delaying_queue.go. A cancelled `get` loses nothing here.
    """

    def __init__(self, limiter: RateLimiter[K] | None = None, *, metrics: QueueMetrics | None = None) -> None:
        """Make an empty queue.

        Args:
            limiter: How long failed keys wait; None for `default_limiter`.
            metrics: Where to count what happens; None to count nothing.
        """
        # Order of service. Every waiting key is dirty and is not held.
        self._waiting: deque[K] = deque()
        # Keys with a change that no worker has picked up yet.
        self._dirty: set[K] = set()
        # Keys a worker holds. A held key may also be dirty; `done` requeues it then.
        self._held: set[K] = set()
        # Workers asleep in `get`. Waking one promises nothing: it looks again for itself.
        self._getters: deque[asyncio.Future[None]] = deque()
        # Who waits in `drain`.
        self._drains: list[asyncio.Future[None]] = []
        self._closed = False
        # Whether it was shut down twice: nobody waits any longer for what is still held.
        self._abandoned = False
        self._limiter: RateLimiter[K] = limiter or default_limiter()
        self._delays: Delays[K] = Delays(self.add)
        self._metrics = metrics
        if metrics is not None:
            metrics.measure(self.__len__)

    def add(self, key: K) -> None:
        """Have the key handed out; ignored after `shut_down`."""
        if self._closed or key in self._dirty:
            return
        if self._metrics is not None:
            self._metrics.added(key)
        self._dirty.add(key)
        if key not in self._held:
            self._append(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Add the key in `seconds`, at once when that is not positive.

        A key has one delayed turn: the earliest asked for. An `add` in between does not cancel it.
        """
        if self._closed:
            return
        if self._metrics is not None:
            self._metrics.retried()
        if seconds > 0:
            self._delays.add(key, seconds)
        else:
            self.add(key)

    def cancel_after(self, key: K) -> None:
        """Drop the key's delayed turn, if it has one: for those who know that nothing is left to do then."""
        self._delays.cancel(key)

    def add_rate_limited(self, key: K, *, at_least: float = 0.0) -> None:
        """Add the key after the delay its failures have earned it, or `at_least` seconds if that is longer."""
        self.add_after(key, max(self._limiter.when(key), at_least))

    def forget(self, key: K) -> None:
        """Let the key's next failure be its first."""
        self._limiter.forget(key)

    def retries(self, key: K) -> int:
        """Return how often the key was added rate-limited since it was last forgotten."""
        return self._limiter.retries(key)

    async def get(self) -> K:
        """Wait for a key and hold it; every key got must be given back with `done`.

        Raises:
            QueueClosedError: The queue is shut down, and nothing waits.
        """
        while not self._waiting:
            if self._closed:
                raise QueueClosedError("the work queue is shut down")
            await self._wait_for_key()
        key = self._waiting.popleft()
        self._dirty.discard(key)
        self._held.add(key)
        if self._metrics is not None:
            self._metrics.taken(key)
        return key

    def done(self, key: K) -> None:
        """Give a key back. It waits again at once if it was added meanwhile."""
        if key not in self._held:
            raise RuntimeError(f"{key}: given back, but nobody held it")
        self._held.remove(key)
        if self._metrics is not None:
            self._metrics.given_back(key)
        if key in self._dirty:
            self._append(key)
        self._wake_drains()

    @asynccontextmanager
    async def item(self) -> AsyncIterator[K]:
        """Hold a key for as long as the context lives.

        Raises:
            QueueClosedError: As `get`.
        """
        key = await self.get()
        try:
            yield key
        finally:
            self.done(key)

    def shut_down(self, *, discard: bool = False) -> int:
        """Accept no more keys, and drop the delayed ones. What waits is still handed out, unless discarded.

        A second call lets those go who wait in `drain`.

        Returns:
            How many delayed keys were dropped.
        """
        self._abandoned = self._closed
        self._closed = True
        dropped = len(self._delays)
        self._delays.clear()
        if discard:
            self._waiting.clear()
            self._dirty.clear()
        for getter in self._getters:
            _wake(getter)
        self._getters.clear()
        self._wake_drains()
        return dropped

    async def drain(self) -> None:
        """Wait until the queue is shut down, nothing waits and nobody holds a key; or it is shut down once more."""
        while not self._abandoned and (not self._closed or self._waiting or self._held):
            waiter = asyncio.get_running_loop().create_future()
            self._drains.append(waiter)
            await waiter

    @property
    def held(self) -> frozenset[K]:
        """The keys that workers hold."""
        return frozenset(self._held)

    def __len__(self) -> int:
        """Return how many keys wait; held and delayed ones do not count."""
        return len(self._waiting)

    def _append(self, key: K) -> None:
        self._waiting.append(key)
        self._wake_getter()

    async def _wait_for_key(self) -> None:
        getter = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            if getter in self._getters:
                self._getters.remove(getter)
            elif self._waiting:
                # Woken and cancelled at once: the wake-up was meant for a key, so somebody else must have it.
                self._wake_getter()
            raise

    def _wake_getter(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _wake_drains(self) -> None:
        if self._abandoned or (self._closed and not self._waiting and not self._held):
            for waiter in self._drains:
                _wake(waiter)
            self._drains.clear()


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
