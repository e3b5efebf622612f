"""Reconciles that run for long: each is logged with the line at which it waits, and again after twice as long.

The gauge `workqueue_longest_running_processor_seconds` shows the longest. A timer looks at the running reconciles when
the first of them may be due, so that reconciles cost nothing.
"""

import asyncio
import contextvars

from kcr.api.meta import Key
from kcr.controller.observers.journal import ReconcileJournal
from kcr.log import get_logger
from kcr.stacks import await_stack
from kcr.workqueue import WorkQueue

_log = get_logger()


class LongRuns:
    """Looks at the running reconciles of one controller, from `start` to `stop`."""

    def __init__(self, controller: str, seconds: float, journal: ReconcileJournal, queue: WorkQueue[Key]) -> None:
        """Look at nothing yet.

        Args:
            controller: Its name.
            seconds: After how long a reconcile is logged first.
            journal: Has the running reconciles.
            queue: Knows since when they run.
        """
        self._controller, self._seconds, self._journal, self._queue = controller, seconds, journal, queue
        # When each running reconcile, by its key and its beginning, is logged next.
        self._due: dict[tuple[Key, float], float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Log the reconciles that are due, and set the timer for the next one."""
        loop, now = asyncio.get_running_loop(), asyncio.get_running_loop().time()
        earlier, self._due = self._due, {}
        for key, since in self._queue.processing_since.items():
            due, task = earlier.get((key, since), since + self._seconds), self._journal.running.get(key)
            if now >= due and task is not None:
                _log.warning(
                    "reconcile is still running", controller=self._controller, namespace=key.namespace, name=key.name,
                    after_seconds=round(now - since, 1), where=await_stack(task),
                )  # fmt: skip
                due = since + 2 * (now - since)
            self._due[key, since] = due
        following = min((*self._due.values(), now + self._seconds))
        # An empty context: it must not log in the name of a reconcile.
        self._timer = loop.call_at(max(following, now + 0.001), self.start, context=contextvars.Context())

    def stop(self) -> None:
        """Look no longer."""
        if self._timer is not None:
            self._timer.cancel()
