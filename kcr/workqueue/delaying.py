"""Keys that come later: one moment per key, one timer for all of them."""

import asyncio
import contextvars
import heapq
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

# Dead entries that are not worth a search.
_FEW = 64


class Delays(Generic[K]):
    """Calls `ready` with each key when its moment comes. A second moment counts only when it is earlier."""

    def __init__(self, ready: Callable[[K], None]) -> None:
        self._ready = ready
        # The moment each key waits for, on the loop's time.
        self._moments: dict[K, float] = {}
        # (moment, order of arrival, key). An entry whose moment is no longer its key's is dead, and skipped.
        self._heap: list[tuple[float, int, K]] = []
        self._arrivals = 0
        # The one timer, set for the head of the heap or for an earlier moment that has since died.
        self._timer: asyncio.Handle | None = None
        # That moment. The timer itself may not tell: uvloop has none for delays below half a millisecond.
        self._armed = 0.0

    def add(self, key: K, seconds: float) -> None:
        """Have the key come in `seconds`, unless it comes earlier already."""
        moment = asyncio.get_running_loop().time() + seconds
        if self._moments.get(key, moment + 1) <= moment:
            return
        self._moments[key] = moment
        self._arrivals += 1
        heapq.heappush(self._heap, (moment, self._arrivals, key))
        self._set_timer()

    def cancel(self, key: K) -> None:
        """Drop a key; its entry in the heap is dead from now on, and may stay for a while."""
        self._moments.pop(key, None)
        # A moment may be a year away, and so would be the end of what is dead.
        if len(self._heap) > 2 * len(self._moments) + _FEW:
            self._heap = [entry for entry in self._heap if self._moments.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)

    def clear(self) -> None:
        """Drop all keys."""
        self._moments.clear()
        self._heap.clear()
        self._set_timer()

    def __len__(self) -> int:
        """Return how many keys wait."""
        return len(self._moments)

    def _set_timer(self) -> None:
        moment = self._heap[0][0] if self._heap else None
        if self._timer is not None:
            if moment is not None and self._armed <= moment:
                return
            self._timer.cancel()
            self._timer = None
        if moment is not None:
            self._armed = moment
            # An empty context: the timer outlives the reconcile that set it, and must not log in its name.
            self._timer = asyncio.get_running_loop().call_at(moment, self._fire, context=contextvars.Context())

    def _fire(self) -> None:
        self._timer = None
        # A loop may fire a hair early; what the timer was set for is due all the same.
        now = max(self._armed, asyncio.get_running_loop().time())
        while self._heap and self._heap[0][0] <= now:
            moment, _, key = heapq.heappop(self._heap)
            if self._moments.get(key) == moment:
                del self._moments[key]
                self._ready(key)
        self._set_timer()
