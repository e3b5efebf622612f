"""The work queue: FIFO, deduplicating, and no key is processed concurrently."""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from kcr.errors import QueueClosedError
from kcr.metrics import QueueMetrics
from kcr.workqueue.delaying import DelayingQueue
from kcr.workqueue.ratelimit import RateLimiter, default_limiter

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Deduplicating FIFO queue of keys, with delays and rate limits; the package's docstring has the contract.

    Source: client-go/util/workqueue, queue.go and delaying_queue.go. A cancelled `get` loses no key here.
    """

    def __init__(self, limiter: RateLimiter[K] | None = None, *, metrics: QueueMetrics | None = None) -> None:
        """Make an empty queue.

        Args:
            limiter: How long failed keys wait; None for `default_limiter`.
            metrics: Where to count what happens; None to count nothing.
        """
        # FIFO order. Invariant: every queued key is dirty and is not being processed.
        self._queue: deque[K] = deque()
        # Keys with a change that no worker has picked up yet.
        self._dirty: set[K] = set()
        # Keys being processed. One of them may be dirty as well; `done` then queues it again.
        self._processing: set[K] = set()
        # Workers waiting in `get`. Waking one promises nothing: it looks again.
        self._getters: deque[asyncio.Future[None]] = deque()
        # Callers waiting in `drain`.
        self._drains: list[asyncio.Future[None]] = []
        self._closed = False
        # Whether it was shut down twice: `drain` no longer waits for keys being processed.
        self._abandoned = False
        self._limiter: RateLimiter[K] = limiter or default_limiter()
        self._delayed: DelayingQueue[K] = DelayingQueue(self.add)
        self._metrics = metrics
        if metrics is not None:
            metrics.depth = self.__len__

    def add(self, key: K) -> None:
        """Queue a key, unless it is queued already; ignored after `shut_down`."""
        if self._closed or key in self._dirty:
            return
        if self._metrics is not None:
            self._metrics.add(key)
        self._dirty.add(key)
        if key not in self._processing:
            self._append(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Add the key in `seconds`, at once when that is not positive.

        A key has one delay: the earliest asked for. An `add` in between does not cancel it.
        """
        if self._closed:
            return
        if self._metrics is not None:
            self._metrics.retry()
        if seconds > 0:
            self._delayed.add(key, seconds)
        else:
            self.add(key)

    def cancel_after(self, key: K) -> None:
        """Cancel the key's delay, if it has one: for a caller that knows that nothing will be left to do then."""
        self._delayed.cancel(key)

    def add_rate_limited(self, key: K, *, min_delay: float = 0.0, max_delay: float = math.inf) -> None:
        """Add the key after the delay that the rate limiter asks for, within bounds.

        Args:
            key: The key.
            min_delay: Seconds to wait at least, such as a server's Retry-After; it wins over `max_delay`.
            max_delay: Seconds to wait at most.
        """
        self.add_after(key, max(min(self._limiter.when(key), max_delay), min_delay))

    def forget(self, key: K) -> None:
        """Reset the key's backoff: its next failure counts as the first."""
        self._limiter.forget(key)

    def retries(self, key: K) -> int:
        """Return how often the key was added rate-limited since it was last forgotten."""
        return self._limiter.retries(key)

    async def get(self) -> K:
        """Wait for a key, and take it for processing; `done` must be called for every key taken.

        Raises:
            QueueClosedError: The queue is shut down and empty.
        """
        while not self._queue:
            if self._closed:
                raise QueueClosedError("the work queue is shut down")
            await self._wait_for_key()
        key = self._queue.popleft()
        self._dirty.discard(key)
        self._processing.add(key)
        if self._metrics is not None:
            self._metrics.get(key)
        return key

    def done(self, key: K) -> None:
        """End the processing of a key; queue it again if it was added meanwhile."""
        if key not in self._processing:
            raise RuntimeError(f"{key}: done, but it was not being processed")
        self._processing.remove(key)
        if self._metrics is not None:
            self._metrics.done(key)
        if key in self._dirty:
            self._append(key)
        self._wake_drains()

    @asynccontextmanager
    async def item(self) -> AsyncIterator[K]:
        """Take a key, and call `done` at the end of the context.

        Raises:
            QueueClosedError: As `get`.
        """
        key = await self.get()
        try:
            yield key
        finally:
            self.done(key)

    def shut_down(self, *, discard: bool = False) -> int:
        """Accept no more keys, and drop the delayed ones. Queued keys are still handed out, unless discarded.

        A second call ends every `drain`.

        Returns:
            How many delayed keys were dropped.
        """
        self._abandoned = self._closed
        self._closed = True
        dropped = len(self._delayed)
        self._delayed.clear()
        if discard:
            self._queue.clear()
            self._dirty.clear()
        for getter in self._getters:
            _wake(getter)
        self._getters.clear()
        self._wake_drains()
        return dropped

    async def drain(self) -> None:
        """Wait until the queue is shut down, is empty and no key is being processed; or it is shut down once more."""
        while not self._abandoned and (not self._closed or self._queue or self._processing):
            waiter = asyncio.get_running_loop().create_future()
            self._drains.append(waiter)
            await waiter

    @property
    def processing(self) -> frozenset[K]:
        """The keys being processed."""
        return frozenset(self._processing)

    def __len__(self) -> int:
        """Return how many keys are queued; those being processed and delayed ones do not count."""
        return len(self._queue)

    def _append(self, key: K) -> None:
        self._queue.append(key)
        self._wake_getter()

    async def _wait_for_key(self) -> None:
        getter = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            if getter in self._getters:
                self._getters.remove(getter)
            elif self._queue:
                # Woken and cancelled at once: the wake-up was for a key, so another worker must get it.
                self._wake_getter()
            raise

    def _wake_getter(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _wake_drains(self) -> None:
        if self._abandoned or (self._closed and not self._queue and not self._processing):
            for waiter in self._drains:
                _wake(waiter)
            self._drains.clear()


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
