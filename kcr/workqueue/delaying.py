"""The delaying queue: one deadline for each key, one timer for all of them."""

import asyncio
import contextvars
import heapq
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

from kcr.clock import TIMER_SLACK_SECONDS
from kcr.workqueue.reasons import Reason

K = TypeVar("K", bound=Hashable)

# A shorter delay may be too small to move a clock, and would be due endlessly. Timers may fire a hair before a deadline
# of the calendar, and its reconcile asks for the rest.
MIN_DELAY_SECONDS = TIMER_SLACK_SECONDS
# Stale entries that are not worth a search.
_FEW = 64


class Delay(NamedTuple, Generic[K]):
    """When a key is added, on the loop's time, and how. Delays are compared by deadline and order of arrival."""

    deadline: float
    arrival: int
    key: K
    priority: int
    reason: Reason | None


class DelayingQueue(Generic[K]):
    """Calls `ready` with each key at its deadline. A second deadline of a key counts only when it is earlier."""

    def __init__(self, ready: Callable[[K, int, Reason | None], None]) -> None:
        self._ready = ready
        self._delays: dict[K, Delay[K]] = {}
        # A delay that is no longer its key's is stale, and skipped.
        self._heap: list[Delay[K]] = []
        self._arrivals = 0
        # The one timer, set for the head of the heap or for an earlier deadline that is stale by now.
        self._timer: asyncio.Handle | None = None
        # That deadline. The timer itself may not have it: uvloop has none for delays below half a millisecond.
        self._timer_deadline = 0.0

    def add(self, key: K, seconds: float, priority: int = 0, reason: Reason | None = None) -> None:
        """Call `ready` with the key in `seconds`, unless it has an earlier deadline; the highest priority counts.

        Args:
            key: The key.
            seconds: How long from now; a millisecond at least.
            priority: Handed on to `ready`.
            reason: Handed on to `ready`, unless another deadline is earlier.
        """
        least = MIN_DELAY_SECONDS
        deadline = asyncio.get_running_loop().time() + (seconds if seconds > least else least)
        known = self._delays.get(key)
        if known is not None:
            if known.deadline <= deadline:
                if priority <= known.priority:
                    return
                deadline, reason = known.deadline, known.reason
            priority = max(priority, known.priority)
        self._arrivals += 1
        delay = self._delays[key] = Delay(deadline, self._arrivals, key, priority, reason)
        heapq.heappush(self._heap, delay)
        self._set_timer()

    def get(self, key: K) -> Delay[K] | None:
        """Return the delay of a key, or None when it has none."""
        return self._delays.get(key)

    def copy(self) -> dict[K, Delay[K]]:
        """Return the delays by key; it may be called in any thread."""
        return self._delays.copy()

    def cancel(self, key: K) -> None:
        """Cancel the deadline of a key; its entry in the heap is stale from now on, and may stay for a while."""
        self._delays.pop(key, None)
        # A deadline may be a year away, and its stale entry would stay as long.
        if len(self._heap) > 2 * len(self._delays) + _FEW:
            self._heap = [delay for delay in self._heap if self._delays.get(delay.key) is delay]
            heapq.heapify(self._heap)

    def clear(self) -> None:
        """Drop all keys."""
        self._delays.clear()
        self._heap.clear()
        self._set_timer()

    def __len__(self) -> int:
        """Return how many keys have a deadline."""
        return len(self._delays)

    def _set_timer(self) -> None:
        deadline = self._heap[0].deadline if self._heap else None
        if self._timer is not None:
            if deadline is not None and self._timer_deadline <= deadline:
                return
            self._timer.cancel()
            self._timer = None
        if deadline is not None:
            self._timer_deadline = deadline
            # An empty context: it must not log in the name of a reconcile.
            self._timer = asyncio.get_running_loop().call_at(deadline, self._fire, context=contextvars.Context())

    def _fire(self) -> None:
        self._timer = None
        # A loop may fire a hair early; the keys of the timer are due all the same.
        now = max(self._timer_deadline, asyncio.get_running_loop().time())
        while self._heap and self._heap[0].deadline <= now:
            delay = heapq.heappop(self._heap)
            if self._delays.get(delay.key) is delay:
                del self._delays[delay.key]
                self._ready(delay.key, delay.priority, delay.reason)
        self._set_timer()
