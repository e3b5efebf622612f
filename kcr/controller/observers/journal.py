"""The journal of a controller: its running reconciles, the last that have ended, and the keys that fail.

It is for people, never for decisions. The workers write it on the event loop: an append for each reconcile, and an
entry for each key that fails. Readers copy it (`dict(journal.failing)`), and may do so in any thread.
"""

import asyncio
import contextvars
from collections import deque
from typing import Any, NamedTuple

from kcr.api.meta import Key
from kcr.controller.observers import Observer, ReconcileRun
from kcr.log import get_logger
from kcr.metrics import Outcome
from kcr.stacks import await_stack
from kcr.workqueue import WorkQueue

# How many of the last reconciles are kept, and how many failing keys; the oldest give way.
MAX_RUNS, MAX_FAILING = 1000, 10_000
# Of an error. The log has all of it.
MAX_TEXT = 500

_log = get_logger()
_Entry = tuple[Key, float, float, Outcome, str | float]


class EndedReconcile(NamedTuple):
    """A reconcile that has ended.

    Attributes:
        key: The key.
        ended: When, in the loop's time.
        seconds: How long it took.
        outcome: How it ended.
        detail: The error; or the seconds after which it asked for its key again; else empty.
    """

    key: Key
    ended: float
    seconds: float
    outcome: Outcome
    detail: str | float

    @property
    def text(self) -> str:
        """The detail in words."""
        if isinstance(self.detail, str):
            return self.detail
        return f"requeue after {round(self.detail, 3):.10g} s"


class ReconcileJournal(Observer):
    """The running and the last reconciles of one controller's workers.

    Attributes:
        failing: The last reconcile of each key that has failed and not succeeded since; a key whose object is paused or
            was deleted is no longer among them.
        running: The keys that workers hold, and the tasks of these.
    """

    def __init__(self) -> None:
        self.failing: dict[Key, EndedReconcile] = {}
        self.running: dict[Key, asyncio.Task[Any] | None] = {}
        # Plain tuples: they take a third of the time of named ones, and most are never read.
        self._runs: deque[_Entry] = deque(maxlen=MAX_RUNS)

    @property
    def runs(self) -> tuple[EndedReconcile, ...]:
        """The last reconciles, the oldest first; to be read in any thread."""
        return tuple(map(EndedReconcile._make, tuple(self._runs)))

    def end(self, run: ReconcileRun) -> None:
        """Record a reconcile that has ended."""
        detail = run.detail if run.error is None else str(run.detail)[:MAX_TEXT]
        entry = run.key, run.ended, run.ended - run.began, run.outcome, detail
        self._runs.append(entry)
        if self.failing or run.error is not None:
            self._follow(EndedReconcile._make(entry))

    def _follow(self, run: EndedReconcile) -> None:
        if run.outcome == "error":
            if len(self.failing) >= MAX_FAILING and run.key not in self.failing:
                del self.failing[next(iter(self.failing))]
            self.failing[run.key] = run
        elif run.outcome != "cancelled":
            self.failing.pop(run.key, None)

    def forget(self, key: Key) -> None:
        """Note that a key no longer counts as failing."""
        self.failing.pop(key, None)


class LongRuns:
    """Logs the reconciles that run for long, with the line at which each waits, and again after twice as long.

    A timer looks at them when the first may be due, so that reconciles cost nothing. The gauge of the longest is
    `workqueue_longest_running_processor_seconds`.
    """

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
