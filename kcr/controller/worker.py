"""Workers: take a key from the queue, reconcile it, and requeue it with backoff when that failed."""

import asyncio
import logging
import math
import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from structlog.contextvars import bind_contextvars

from kcr.api.meta import Key
from kcr.controller.gates.pause import Pauses
from kcr.controller.observers.conflicts import Conflicts
from kcr.controller.observers.hot_loop import HotLoops
from kcr.controller.observers.journal import MAX_TEXT, ReconcileJournal
from kcr.controller.observers.span import ReconcileSpan
from kcr.controller.outage import PROBE_SECONDS, Outage, is_unanswered
from kcr.controller.own_writes import OwnWrites, StaleStoreError
from kcr.controller.reconcile import Reconciler, Result, requeue_seconds
from kcr.errors import (
    ApiError,
    ConflictError,
    KcrError,
    LeadershipLostError,
    QueueClosedError,
    RetryLater,
    TerminalError,
    is_bug,
    leaves,
)
from kcr.log import get_logger
from kcr.metrics import ControllerMetrics, Outcome
from kcr.tracing import exemplar_of, find_tracer, record_failure
from kcr.workqueue import KeyState, Reason, WorkQueue

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

_log = get_logger()

# Why this module queues keys.
_REQUEUE_AFTER = Reason("reconcile", "requeue_after")
_STALE_STORE = Reason("reconcile", "deferred", detail="a store did not show our own write yet")
_UNSEEN_WRITE = Reason("reconcile", "unseen write", detail="an object that was written is gone")
_ANSWERED = Reason("reconcile", "retry", detail="the API server answers again")
_TOO_EARLY = Reason("reconcile", "deferred", detail="the last reconcile was just now, and this is a dry run")
# A conflict is nothing unusual; one that lasts for so many retries is, with the default backoff after 0.3 s.
_MANY_CONFLICTS = 6
# Of an error. The log has all of it.
_MAX_DETAIL = 200

# In a dry run nothing that is written ever shows up, and a reconciler that asks to go on at once would never end.
DRY_RUN_INTERVAL_SECONDS = 10.0
# A shorter delay may be too small to move a clock, and would be due for ever.
_MIN_DELAY_SECONDS = 0.001


# How a reconcile ended, and the detail for the journal.
Ended = tuple[Outcome, str | float]


class DeadlineError(KcrError):
    """A reconcile took longer than its controller allows."""


class MinInterval:
    """Keeps a minimum of time between one reconcile of a key and the next."""

    def __init__(self, seconds: float) -> None:
        """Know of no reconcile; with an interval of 0 seconds, none is ever too early."""
        self._seconds = seconds
        # When keys may be reconciled again; times that are over are dropped once per interval.
        self._not_before: dict[Key, float] = {}
        self._next_purge = 0.0

    def delay(self, key: Key, now: float) -> float:
        """Return the seconds until a key may be reconciled; 0 for now, and then this counts as its reconcile."""
        if not self._seconds:
            return 0.0
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


class Worker:
    """Reconciles keys, one after the other, until its queue is shut down and empty.

    Contract: a reconcile that fails is retried with exponential backoff, after a `RetryLater` when that says; a
    `TerminalError` is not; after a success the backoff is reset. A key that is retried or requeued keeps its priority.
    Nothing that a reconciler raises or returns ends the worker.

    Attributes:
        journal: What is and was reconciled.
    """

    def __init__(  # noqa: PLR0913  # what a controller hands on, all by name
        self,
        controller: str,
        queue: WorkQueue[Key],
        reconciler: Reconciler,
        *,
        random: random.Random,
        metrics: ControllerMetrics,
        pauses: Pauses,
        hot_loops: HotLoops,
        conflicts: Conflicts,
        own_writes: OwnWrites | None = None,
        seconds: float | None = None,
        min_interval: float = 0.0,
        expected_errors: tuple[type[Exception], ...] = (),
    ) -> None:
        """Make a worker.

        Args:
            controller: Whose worker it is, for the logs.
            queue: Where the keys are.
            reconciler: What to do with one.
            random: Makes the ids of the runs.
            metrics: Where runs are counted.
            pauses: Which keys are not reconciled for now.
            hot_loops: Finds keys that are reconciled over and over.
            conflicts: Finds keys that meet conflicts because a watch event was lost.
            own_writes: Defers keys until the stores show what was written; None for no such care.
            seconds: How long one reconcile may take; None for no limit.
            min_interval: Seconds from one reconcile of a key to the next; 0 for none.
            expected_errors: Exceptions that are logged without a traceback, as the errors of kcr are.
        """
        self.journal = ReconcileJournal()
        self._controller = controller
        self._queue = queue
        self._reconciler = reconciler
        self._random = random
        self._metrics = metrics
        self._pauses = pauses
        self._hot_loops = hot_loops
        self._conflicts = conflicts
        self._own_writes = own_writes
        self._seconds = seconds
        self._min_interval = MinInterval(min_interval)
        self._expected: tuple[type[BaseException], ...] = (KcrError, *expected_errors)
        # Of all workers of the controller: they share this one object.
        self._outage = Outage()
        self._is_debug = False
        # Makes the spans of reconciles; None without a tracer provider, which is looked for when the worker starts.
        self._tracer: Tracer | None = None

    async def run(self) -> None:
        """Process keys until the queue is shut down and empty."""
        # A worker is a task of its own, so this context is that of its reconciles' log lines.
        bind_contextvars(controller=self._controller)
        self._tracer = find_tracer()
        is_enabled_for = getattr(_log, "is_enabled_for", None)
        self._is_debug = is_enabled_for is not None and is_enabled_for(logging.DEBUG)
        task, running = asyncio.current_task(), self.journal.running
        while True:
            try:
                key = await self._queue.get()
            except QueueClosedError:
                return
            running[key] = task
            try:
                await self._process(key)
                if self._conflicts.has_suspects:
                    await self._conflicts.inspect(key)
            except Exception as error:
                # No failure of a reconcile gets here: something around it is broken, such as a rate limiter.
                error.add_note(f"controller {self._controller}, key {key}")
                raise
            finally:
                del running[key]
                self._queue.done(key)
            # A reconcile that never awaits would hold up the event loop for as long as there are keys.
            await asyncio.sleep(0)

    async def _process(self, key: Key) -> None:
        if not isinstance(key, Key):
            # From a queue that a user's code adds to; what it adds once it will add again, so no retry.
            self._metrics.errors += 1
            self._queue.forget(key)
            expected = "a kcr.Key(namespace, name)"
            _log.error("key is of the wrong type, dropped", key=repr(key), type=type(key).__name__, expected=expected)
            return
        run_id = f"{self._random.getrandbits(64):016x}"
        bind_contextvars(namespace=key.namespace, name=key.name, reconcile_id=run_id)
        if self._pauses.applies_to(key):
            # Its failures are of before; what resumes it enqueues it. Others may wait for its answer.
            self._queue.forget(key)
            self.journal.forget(key)
            self._end_outage(key)
            return
        if self._defer_if_stale(key) or self._defer_if_early(key):
            return
        if self._is_debug:
            state = self._queue.state(key)
            _log.debug("reconciling", priority=state.processing, reasons=[*map(str, state.processing_reasons)])
        if is_hot := self._hot_loops.is_hot(key):
            await self._hot_loops.inspect(key)
        metrics, now = self._metrics, asyncio.get_running_loop().time
        outcome: Outcome = "cancelled"
        detail: str | float = ""
        began = now()
        span = None if self._tracer is None else self._begin_span(self._tracer, key, run_id)
        metrics.active += 1
        if self._own_writes is not None:
            self._own_writes.begin(key)
        try:
            outcome, detail = await self._reconcile(key)
        finally:
            # First, for a span processor may fail, and the events that arrived meanwhile must not be lost.
            if self._own_writes is not None:
                self._own_writes.end(key, self._enqueue_for_unseen_write(key))
            if span is not None:
                span.finish(outcome)
            metrics.active -= 1
            metrics.results[outcome] += 1
            ended = now()
            metrics.seconds.observe(ended - began, None if span is None else exemplar_of(span.span))
            self.journal.record((key, ended, ended - began, outcome, detail))
        if is_hot:
            await self._hot_loops.inspect(key)

    def _enqueue_for_unseen_write(self, key: Key) -> Callable[[], None]:
        return partial(self._queue.add, key, priority=self._queue.priority(key), reason=_UNSEEN_WRITE)

    def _begin_span(self, tracer: "Tracer", key: Key, run_id: str) -> ReconcileSpan:
        return ReconcileSpan(tracer, self._controller, key, run_id, self._queue.state(key))

    def _defer_if_early(self, key: Key) -> bool:
        """Enqueue a key for later when its last reconcile was less than the interval ago; return whether it was."""
        wait = self._min_interval.delay(key, asyncio.get_running_loop().time())
        if wait > 0:
            self._queue.add_after(key, wait, priority=self._queue.priority(key), reason=_TOO_EARLY)
        return wait > 0

    def _defer_if_stale(self, key: Key) -> bool:
        """Defer a key whose stores do not show our own writes yet; return whether it was deferred."""
        if self._own_writes is None:
            return False
        state = self._queue.state(key)
        try:
            return self._own_writes.defer_if_stale(key, partial(self._enqueue_deferred, key, state))
        except StaleStoreError as error:
            self.journal.record((key, asyncio.get_running_loop().time(), 0.0, *self._failed(key, error)))
            return True

    def _enqueue_deferred(self, key: Key, state: KeyState) -> None:
        """Queue a key again that was not reconciled, as it had been queued."""
        for reason in (*state.processing_reasons, _STALE_STORE):
            self._queue.add(key, priority=state.processing, reason=reason)

    async def _reconcile(self, key: Key) -> Ended:
        try:
            result = await (self._reconciler.reconcile(key) if self._seconds is None else self._in_time(key))
            requeue_after = requeue_seconds(result, self._random)
        except asyncio.CancelledError as error:
            if _is_stopping():
                raise
            # A task that this reconcile waited for was cancelled: a failure of the reconcile, not our shutdown.
            return self._failed(key, error)
        except Exception as error:  # the one place where every failure of a reconcile is handled
            return self._failed(key, error)
        return self._succeeded(key, requeue_after, result.priority)

    async def _in_time(self, key: Key) -> Result:
        deadline = asyncio.timeout(self._seconds)
        try:
            async with deadline:
                return await self._reconciler.reconcile(key)
        except Exception as error:
            if not deadline.expired():
                raise
            self._metrics.timeouts += 1
            # The traceback shows where it was at the timeout.
            _log.warning("reconcile timed out", after_seconds=self._seconds, exc_info=error)
            raise DeadlineError(f"took longer than {self._seconds} s") from error

    def _succeeded(self, key: Key, seconds: float | None, priority: int | None) -> Ended:
        self._queue.forget(key)
        self._end_outage(key)
        self._conflicts.forget(key)
        if seconds is None:
            return "success", ""
        delay = max(seconds, _MIN_DELAY_SECONDS) if seconds > 0 else 0.0
        if delay <= _MIN_DELAY_SECONDS:
            self._hot_loops.note_requeue(key)
        priority = self._queue.priority(key) if priority is None else priority
        self._queue.add_after(key, delay, priority=priority, reason=_REQUEUE_AFTER)
        return "requeue_after", delay

    def _failed(self, key: Key, error: BaseException) -> Ended:
        self._metrics.errors += 1
        causes = tuple(leaves(error))
        ended: Ended = ("error", _text(causes)[:MAX_TEXT])
        if self._tracer is not None:
            record_failure(error, _text(causes))
        if all(map(is_unanswered, causes)):
            self._unanswered(key, causes)
            return ended
        self._end_outage(key)
        if all(isinstance(cause, TerminalError) for cause in causes):
            self._metrics.terminal_errors += 1
            self._conflicts.forget(key)
            _log.error("terminal error, not retried", error=_text(causes))
            return ended
        self._retry(key, causes, _max_delay(causes))
        if all(isinstance(cause, ConflictError) for cause in causes):
            self._conflicts.note(key)
        self._log_failure(error, causes, self._queue.retries(key))
        return ended

    def _log_failure(self, error: BaseException, causes: tuple[BaseException, ...], retries: int) -> None:
        if all(isinstance(cause, LeadershipLostError) for cause in causes):
            # Every write of the process is refused now: the elector has one line for all of them.
            _log.debug("write refused, leadership lost", error=_text(causes), retries=retries)
            return
        unexpected = [cause for cause in causes if not isinstance(cause, self._expected)]
        if any(map(is_bug, unexpected)):
            # What controller-runtime calls a panic: it costs this one reconcile, not the process.
            self._metrics.panics += 1
            _log.error("reconcile panicked", error=_text(causes), retries=retries, exc_info=error)
        elif unexpected:
            # A failure that its author has not foreseen: the traceback tells where it comes from.
            _log.warning("reconcile failed", error=_text(causes), retries=retries, exc_info=error)
        elif all(isinstance(cause, ConflictError) for cause in causes):
            level = logging.DEBUG if retries < _MANY_CONFLICTS else logging.WARNING
            _log.log(level, "conflict, requeuing", error=_text(causes), retries=retries)
        else:
            _log.warning("reconcile failed", error=_text(causes), retries=retries)

    def _end_outage(self, key: Key) -> None:
        """Retry the keys that had no answer either, if this one had none and has not failed so again.

        Its backoff is reset: an outage tells nothing of what comes after it.
        """
        if not self._outage.has(key):
            return
        self._queue.forget(key)
        for other, failed_at in self._outage.recovered(key):
            self._queue.add(other, priority=failed_at, reason=_ANSWERED)

    def _unanswered(self, key: Key, causes: tuple[BaseException, ...]) -> None:
        now, retries = asyncio.get_running_loop().time(), self._queue.retries(key) + 1
        is_probe = self._outage.add(key, self._queue.priority(key), _text(causes), retries, now)
        self._retry(key, causes, PROBE_SECONDS * (1.0 + self._random.random()) if is_probe else math.inf)

    def _retry(self, key: Key, causes: tuple[BaseException, ...], max_delay: float = math.inf) -> None:
        self._queue.add_rate_limited(
            key,
            min_delay=_retry_after(causes),
            max_delay=max_delay,
            priority=self._queue.priority(key),
            reason=Reason("reconcile", "error", detail=_text(causes)[:_MAX_DETAIL]),
        )


def _retry_after(causes: tuple[BaseException, ...]) -> float:
    return max(cause.retry_after_seconds if isinstance(cause, ApiError | RetryLater) else 0.0 for cause in causes)


def _max_delay(causes: tuple[BaseException, ...]) -> float:
    """Return how long a key waits at most: as long as all of its errors ask for, if they are of that kind."""
    asked = _retry_after(causes)
    return asked if asked and all(isinstance(cause, RetryLater) for cause in causes) else math.inf


def _is_stopping() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _text(causes: tuple[BaseException, ...]) -> str:
    return "; ".join(f"{type(cause).__name__}: {cause}".removesuffix(": ") for cause in causes)
