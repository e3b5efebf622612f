"""The minimal interval between two reconciles of a key: for dry runs.

In a dry run nothing that is written ever shows up, and a reconciler that asks to go on at once would never end.
"""

import asyncio

from kcr.api.meta import Key
from kcr.controller.gates import GateDecision
from kcr.workqueue import Reason, WorkQueue

DRY_RUN_INTERVAL_SECONDS = 10.0

_TOO_EARLY = Reason("reconcile", "deferred", detail="the last reconcile was just now, and this is a dry run")


class MinInterval:
    """Keeps a minimum of time between one reconcile of a key and the next: a gate, and the last one of a worker.

    What it admits counts as reconciled.
    """

    def __init__(self, seconds: float, queue: WorkQueue[Key]) -> None:
        """Know of no reconcile.

        Args:
            seconds: From one reconcile of a key to the next.
            queue: Gets the keys that come too early, at the time when they no longer do.
        """
        self._seconds = seconds
        self._queue = queue
        # When keys may be reconciled again; times that are over are dropped once per interval.
        self._not_before: dict[Key, float] = {}
        self._next_purge = 0.0

    def check(self, key: Key) -> GateDecision:
        """Defer a key whose last reconcile was less than the interval ago."""
        wait = self.delay(key, asyncio.get_running_loop().time())
        if wait <= 0:
            return GateDecision.ADMIT
        self._queue.add_after(key, wait, priority=self._queue.priority(key), reason=_TOO_EARLY)
        return GateDecision.DEFER

    def delay(self, key: Key, now: float) -> float:
        """Return the seconds until a key may be reconciled; 0 for now, and then this counts as its reconcile."""
        if (wait := self._not_before.get(key, now) - now) > 0:
            return wait
        if now >= self._next_purge:
            self._not_before = {other: time for other, time in self._not_before.items() if time > now}
            self._next_purge = now + self._seconds
        self._not_before[key] = now + self._seconds
        return 0.0

    def __len__(self) -> int:
        """Return how many keys are remembered: those reconciled within the last two intervals."""
        return len(self._not_before)
