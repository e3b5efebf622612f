"""The delaying queue: one deadline for each key, one timer for all of them."""

import asyncio
import contextvars
import heapq
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

# Stale entries that are not worth a search.
_FEW = 64


class DelayingQueue(Generic[K]):
    """Calls `ready` with each key at its deadline. A second deadline of a key counts only when it is earlier."""

    def __init__(self, ready: Callable[[K], None]) -> None:
        self._ready = ready
        # The deadline of each key, on the loop's time.
        self._deadlines: dict[K, float] = {}
        # (deadline, order of arrival, key). An entry whose deadline is no longer its key's is stale, and skipped.
        self._heap: list[tuple[float, int, K]] = []
        self._arrivals = 0
        # The one timer, set for the head of the heap or for an earlier deadline that is stale by now.
        self._timer: asyncio.Handle | None = None
        # That deadline. The timer itself may not tell: uvloop has none for delays below half a millisecond.
        self._timer_deadline = 0.0

    def add(self, key: K, seconds: float) -> None:
        """Call `ready` with the key in `seconds`, unless it has an earlier deadline."""
        deadline = asyncio.get_running_loop().time() + seconds
        if self._deadlines.get(key, deadline + 1) <= deadline:
            return
        self._deadlines[key] = deadline
        self._arrivals += 1
        heapq.heappush(self._heap, (deadline, self._arrivals, key))
        self._set_timer()

    def cancel(self, key: K) -> None:
        """Cancel the deadline of a key; its entry in the heap is stale from now on, and may stay for a while."""
        self._deadlines.pop(key, None)
        # A deadline may be a year away, and its stale entry would stay as long.
        if len(self._heap) > 2 * len(self._deadlines) + _FEW:
            self._heap = [entry for entry in self._heap if self._deadlines.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)

    def clear(self) -> None:
        """Drop all keys."""
        self._deadlines.clear()
        self._heap.clear()
        self._set_timer()

    def __len__(self) -> int:
        """Return how many keys have a deadline."""
        return len(self._deadlines)

    def _set_timer(self) -> None:
        deadline = self._heap[0][0] if self._heap else None
        if self._timer is not None:
            if deadline is not None and self._timer_deadline <= deadline:
                return
            self._timer.cancel()
            self._timer = None
        if deadline is not None:
            self._timer_deadline = deadline
            # An empty context: the timer outlives the reconcile that set it, and must not log in its name.
            self._timer = asyncio.get_running_loop().call_at(deadline, self._fire, context=contextvars.Context())

    def _fire(self) -> None:
        self._timer = None
        # A loop may fire a hair early; what the timer was set for is due all the same.
        now = max(self._timer_deadline, asyncio.get_running_loop().time())
        while self._heap and self._heap[0][0] <= now:
            deadline, _, key = heapq.heappop(self._heap)
            if self._deadlines.get(key) == deadline:
                del self._deadlines[key]
                self._ready(key)
        self._set_timer()
