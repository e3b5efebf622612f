"""The work queue: by priority, deduplicating, and no key is processed concurrently."""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from threading import get_ident
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

from msgspec import Meta

from kcr.annotations import is_number, shown
from kcr.arguments import check_of_call, checked, ran, refuse
from kcr.errors import QueueClosedError, described
from kcr.log import get_logger
from kcr.metrics import QueueMetrics
from kcr.stacks import trace_of
from kcr.workqueue.delaying import Delay, DelayingQueue
from kcr.workqueue.in_flight import InFlight
from kcr.workqueue.priorities import PriorityFIFO
from kcr.workqueue.ratelimit import RateLimiter, default_limiter
from kcr.workqueue.reasons import Reason, Reasons, as_tuple, joined

K = TypeVar("K", bound=Hashable)

# Returns the group of a key.
FairBy = Callable[[K], Hashable] | Literal["namespace"]
# Groups of keys, and how many of each are processed at a time.
MostInFlight = tuple[FairBy[K], Annotated[int, Meta(ge=1)]]

_DELAY = Reason("delay")
_log = get_logger()


class KeyState(NamedTuple):
    """The state of one key in a queue, for logs and debugging.

    Attributes:
        queued: The priority at which it is queued; None when it is not. A key that was added while it is processed is
            queued when that ends.
        processing: The priority at which a worker took it, and processes it now; None when none does.
        delay: The seconds until it is added; None when it has no delay.
        retries: How often it failed in a row.
        reasons: Why it is queued, or why it is delayed, when it is not queued: the last eight, the oldest first.
        processing_reasons: Why it was queued when the worker took it.
        waited: For how many seconds it had been queued when the worker took it; None when none processes it, and of a
            queue without metrics.
    """

    queued: int | None
    processing: int | None
    delay: float | None
    retries: int
    reasons: tuple[Reason, ...]
    processing_reasons: tuple[Reason, ...]
    waited: float | None = None


class QueueSnapshot(NamedTuple, Generic[K]):
    """The keys of a work queue. They are copied one map after the other, so a key may be in two of them, or in none.

    Attributes:
        queued: The priorities of the keys that are queued, or will be when they have been processed.
        processing: The keys being processed, and the priorities at which they were queued.
        delays: The keys that are added later.
        reasons: Why keys are queued.
        processing_reasons: Why those being processed were.
        queued_since: When queued keys were added first, in the loop's time; empty without metrics.
        processing_since: When workers took the keys being processed; empty without metrics.
    """

    queued: Mapping[K, int]
    processing: Mapping[K, int]
    delays: Mapping[K, Delay[K]]
    reasons: Mapping[K, Reasons]
    processing_reasons: Mapping[K, Reasons]
    queued_since: Mapping[Hashable, float]
    processing_since: Mapping[K, float]

    @property
    def ready(self) -> dict[K, int]:
        """The priorities of the keys that wait for a worker."""
        return {key: priority for key, priority in self.queued.items() if key not in self.processing}

    def reasons_of(self, key: K) -> tuple[Reason, ...]:
        """Return why a key is queued, or else delayed, or else being processed; the oldest reason first."""
        if key in self.queued:
            return as_tuple(self.reasons.get(key))
        if (delay := self.delays.get(key)) is not None:
            return as_tuple(delay.reason)
        return as_tuple(self.processing_reasons.get(key))

    def is_in_backoff(self, key: K) -> bool:
        """Return whether a key is delayed after a failure, rather than by `requeue_after`."""
        delay = self.delays.get(key)
        if delay is None or delay.reason is None:
            return False
        return delay.reason.source == "reconcile" and delay.reason.event == "error"


class WorkQueue(Generic[K]):
    """Deduplicating queue of keys with priorities, delays and rate limits; the package's docstring has the contract.

    Source: client-go/util/workqueue, queue.go and delaying_queue.go; controller-runtime/pkg/controller/priorityqueue.
    A cancelled `get` loses no key here, and an `add` does not end a delay.
    """

    @checked
    def __init__(
        self,
        limiter: RateLimiter[K] | None = None,
        *,
        metrics: QueueMetrics | None = None,
        fair_by: "FairBy[K] | None" = None,
        in_flight: "MostInFlight[K] | None" = None,
    ) -> None:
        """Make an empty queue.

        Args:
            limiter: How long failed keys wait; None for `default_limiter`.
            metrics: The queue's metrics; None for none.
            fair_by: Within a priority, groups of keys take turns: `"namespace"`, or a function that returns the group
                of a key; None for one FIFO.
            in_flight: Groups of keys, as for `fair_by`, and how many of each are processed at a time; None for any
                number.
        """
        # Keys with a change that no worker has picked up yet, and their priorities.
        self._dirty: dict[K, int] = {}
        # Those of them to be handed out. Invariant: every ready key is dirty and is not being processed.
        group_of = None if fair_by is None else partial(_group, fair_by, "fair_by")
        self._ready: PriorityFIFO[K] = PriorityFIFO(group_of, has_plain=in_flight is None)
        # Those that wait for a slot of their group are dirty, and not ready.
        self._in_flight: InFlight[K] | None = in_flight and InFlight(
            partial(_group, in_flight[0], "in_flight"), in_flight[1]
        )
        # Keys being processed, and the priorities at which they were queued. One of them may be dirty as well; `done`
        # then queues it again.
        self._processing: dict[K, int] = {}
        # How many keys are both dirty and being processed; all other dirty keys are ready.
        self._waiting_for_done = 0
        # Why keys are dirty, and why those being processed were. Empty as long as no one gives reasons.
        self._reasons: dict[K, Reasons] = {}
        self._processing_reasons: dict[K, Reasons] = {}
        # Workers waiting in `get`. Waking one promises nothing: it checks the queue again.
        self._getters: deque[asyncio.Future[None]] = deque()
        # Callers waiting in `drain`.
        self._drains: list[asyncio.Future[None]] = []
        # Where the workers are.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = get_ident()
        self._closed = False
        # Whether `done` is more than usual: it is closed, or frees a slot.
        self._has_more_to_do: bool = in_flight is not None
        # Whether it was shut down twice: `drain` no longer waits for keys being processed.
        self._abandoned = False
        self._limiter: RateLimiter[K] = limiter or default_limiter()
        self._delayed: DelayingQueue[K] = DelayingQueue(self._add_delayed)
        self._metrics = metrics
        if metrics is not None:
            ready, held = self._ready, self._in_flight
            metrics.depths = ready.depths if held is None else lambda: held.depths(ready.depths())

    def add(self, key: K, priority: int = 0, reason: Reason | None = None) -> None:
        """Queue a key, unless it is queued; ignored after `shut_down`.

        A key that is queued at a lower priority is raised, and becomes the last of the new priority.

        Args:
            key: The key.
            priority: Keys of a higher priority are handed out first.
            reason: Why it is queued, for logs and debugging; an event handler passes both: `add(key, *trigger)`.

        Raises:
            TypeError: The priority is not a whole number.
        """
        if self._closed or get_ident() != self._thread:
            self._forward(self.add, key, priority, reason)
            return
        if type(priority) is not int:
            check_priority(priority)
        if reason is not None:
            known = self._reasons.get(key)
            self._reasons[key] = reason if known is None else joined(known, reason)
        queued = self._dirty.get(key)
        if queued is not None:
            # Coalesced: level-triggered, so the turn that is queued already serves this change as well.
            if queued < priority:
                self._raise(key, queued, priority)
            return
        if self._metrics is not None:
            self._metrics.add(key)
        self._dirty[key] = priority
        if key in self._processing:
            # Never processed concurrently: `done` makes it ready. The worker may have read an older state than
            # this change, so the key has another turn in any case.
            self._waiting_for_done += 1
            return
        plain = self._ready.plain
        # The usual case, keys of priority 0 alone, costs one append.
        if priority or plain is None:
            self._ready.push(key, priority)
        else:
            plain.append(key)
        if self._getters:
            self._wake_getter()

    def add_after(self, key: K, seconds: float, priority: int = 0, reason: Reason | None = None) -> None:
        """Add the key after `seconds`, at once if that is zero or less.

        A key has one delay: the earliest asked for, at the highest priority. An `add` in between does not cancel it.

        Args:
            key: The key.
            seconds: How long from now.
            priority: As for `add`. A reconciler that delays its own key keeps the priority with `priority(key)`.
            reason: As for `add`.
        """
        if type(seconds) is not float or not seconds < inf or type(priority) is not int:
            check_of_call(WorkQueue.add_after)((self, key, seconds, priority), {})
        if self._closed or get_ident() != self._thread:
            self._forward(self.add_after, key, seconds, priority, reason)
            return
        if seconds <= 0:
            self.add(key, priority, reason)
            return
        if self._metrics is not None:
            self._metrics.retry()
        self._delayed.add(key, seconds, priority, reason)

    def cancel_after(self, key: K) -> None:
        """Cancel the key's delay, if any, because no work will remain at that time."""
        self._delayed.cancel(key)

    def add_rate_limited(
        self,
        key: K,
        *,
        min_delay: float = 0.0,
        max_delay: float = math.inf,
        priority: int = 0,
        reason: Reason | None = None,
    ) -> float:
        """Add the key after the rate limiter's delay, within bounds; return these seconds.

        Args:
            key: The key.
            min_delay: Seconds to wait at least, such as a server's Retry-After; it wins over `max_delay`.
            max_delay: Seconds to wait at most.
            priority: As for `add`.
            reason: As for `add`.
        """
        delay = self._limiter.when(key)
        if not is_number(delay) or delay < 0:
            refuse(f"limiter: when returned {shown(delay)}: return a number of seconds of at least 0")
        delay = max(min(delay, max_delay), min_delay)
        self.add_after(key, delay, priority, reason)
        return delay

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
        plain = self._ready.plain
        key = plain.popleft() if plain else await self._next()
        # No await between taking the key and noting that it is being processed: a cancelled `get` has taken none.
        self._processing[key] = self._dirty.pop(key)
        if self._reasons and (reasons := self._reasons.pop(key, None)) is not None:
            self._processing_reasons[key] = reasons
        if self._metrics is not None:
            self._metrics.get(key)
        return key

    def done(self, key: K) -> None:
        """End the processing of a key; queue it again if it was added meanwhile."""
        if self._processing.pop(key, None) is None:
            raise RuntimeError(f"{key}: done, but it was not being processed")
        if self._metrics is not None:
            self._metrics.done(key)
        if self._processing_reasons:
            self._processing_reasons.pop(key, None)
        # The counter spares a look-up: mostly nothing was added meanwhile.
        if self._waiting_for_done and (priority := self._dirty.get(key)) is not None:
            self._waiting_for_done -= 1
            self._ready.push(key, priority)
            self._wake_getter()
        if self._has_more_to_do:
            self._finish(key)

    def _finish(self, key: K) -> None:
        if self._in_flight is not None and (following := self._in_flight.release(key)) is not None:
            self._ready.push_front(following, self._dirty[following])
            self._wake_getter()
        if self._closed:
            self._wake_getters()
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
        # A second call: its caller no longer waits for the keys that are being processed.
        self._abandoned = self._closed
        self._closed = self._has_more_to_do = True
        dropped = len(self._delayed)
        self._delayed.clear()
        if discard:
            self._ready.clear()
            self._dirty.clear()
            self._reasons.clear()
            if self._in_flight is not None:
                self._in_flight.clear()
            # Keys being processed are no longer dirty, and `done` queues none of them again.
            self._waiting_for_done = 0
        self._wake_getters()
        self._wake_drains()
        return dropped

    async def drain(self) -> None:
        """Wait until the queue is shut down, is empty and no key is being processed; or it is shut down once more."""
        while not self._abandoned and (not self._closed or len(self) or self._processing):
            waiter = asyncio.get_running_loop().create_future()
            self._drains.append(waiter)
            await waiter

    @property
    def processing(self) -> frozenset[K]:
        """The keys being processed."""
        return frozenset(self._processing)

    @property
    def processing_since(self) -> Mapping[K, float]:
        """When workers took the keys being processed, in the loop's time; empty without metrics."""
        return {} if self._metrics is None else self._metrics.processing_since  # type: ignore[return-value]  # of K

    def __len__(self) -> int:
        """Return how many keys are queued; those being processed and delayed ones do not count."""
        return len(self._dirty) - self._waiting_for_done

    def priority(self, key: K) -> int:
        """Return the priority at which a key that is being processed was queued; 0 when it is not being processed."""
        return self._processing.get(key, 0)

    def state(self, key: K) -> KeyState:
        """Return the state of a key: queued, delayed or processing, its priority and its reasons.

        Returns:
            A `kcr.workqueue.KeyState`: the priorities at which it is `queued` and `processing`, or None; the seconds of
            its `delay`, or None; its `retries`; its `reasons`, and its `processing_reasons`; how long it `waited`.
        """
        delay = self._delayed.get(key)
        # A key that is both queued and delayed has the reasons for which it is queued.
        reasons = self._reasons.get(key) if key in self._dirty or delay is None else delay.reason
        return KeyState(
            queued=self._dirty.get(key),
            processing=self._processing.get(key),
            delay=None if delay is None else max(0.0, delay.deadline - asyncio.get_running_loop().time()),
            retries=self.retries(key),
            reasons=as_tuple(reasons),
            processing_reasons=as_tuple(self._processing_reasons.get(key)),
            waited=None if self._metrics is None else self._metrics.waited(key),
        )

    def snapshot(self) -> QueueSnapshot[K]:
        """Return a copy of the queue's contents, for debugging; callable from any thread."""
        metrics = self._metrics
        return QueueSnapshot(
            queued=self._dirty.copy(),
            processing=self._processing.copy(),
            delays=self._delayed.copy(),
            reasons=self._reasons.copy(),
            processing_reasons=self._processing_reasons.copy(),
            queued_since=metrics.queued_since if metrics is not None else {},
            processing_since=self.processing_since,
        )

    def _raise(self, key: K, queued: int, wanted: int) -> None:
        self._dirty[key] = wanted
        # One that is being processed is not ready: `done` pushes it at the priority it has then.
        if key in self._processing:
            return
        if self._in_flight is not None and key in self._in_flight.held:
            self._in_flight.move(key, queued, wanted)
        else:
            self._ready.move(key, queued, wanted)

    def _add_delayed(self, key: K, priority: int, reason: Reason | None) -> None:
        self.add(key, priority, reason or _DELAY)

    def _forward(self, add: Callable[..., None], *arguments: Any) -> None:
        """Add on the workers' thread, for another one, as that of webhooks is."""
        if self._closed:
            return
        if self._loop is None or self._loop.is_closed():  # there are no workers yet
            self._thread = get_ident()
            add(*arguments)
        else:
            self._loop.call_soon_threadsafe(add, *arguments)

    async def _next(self) -> K:
        held = () if self._in_flight is None else self._in_flight.held
        while True:
            # A loop: another worker may have taken the key for which this one was woken.
            while len(self) == len(held):
                if self._closed and not held:
                    raise QueueClosedError("the work queue is shut down")
                await self._wait_for_key()
            key = self._ready.pop()
            if self._in_flight is None or self._in_flight.admit(key, self._dirty[key]):
                return key

    async def _wait_for_key(self) -> None:
        self._loop, self._thread = asyncio.get_running_loop(), get_ident()
        getter = self._loop.create_future()
        self._getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            if getter in self._getters:
                self._getters.remove(getter)
            elif len(self):
                # Woken and cancelled at once: the wake-up was for a key, so another worker must get it.
                self._wake_getter()
            raise

    def _wake_getter(self) -> None:
        # One for each key that became ready. One that is done was cancelled, and has not left the queue yet.
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _wake_getters(self) -> None:
        # All of them: each checks the queue again, and ends once no key is left.
        for getter in self._getters:
            _wake(getter)
        self._getters.clear()

    def _wake_drains(self) -> None:
        if self._abandoned or (self._closed and not len(self) and not self._processing):
            for waiter in self._drains:
                _wake(waiter)
            self._drains.clear()


def _group(by: FairBy[Any], option: str, key: Any) -> Hashable:
    """Return the group of a key; one for all whose group cannot be told, so that none is lost."""
    try:
        group = key.namespace if by == "namespace" else by(key)
        hash(group)
        return ran(group, "it")
    except Exception as error:
        _log.error(f"{option} failed", key=str(key), error=described(error), exc_info=trace_of(error))
        return None


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def check_priority(priority: object) -> None:
    """Raise TypeError for what is no priority."""
    if not isinstance(priority, int) or isinstance(priority, bool):
        refuse(f"priority is {priority!r:.100}: give it a whole number, such as 10")
