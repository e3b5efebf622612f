"""Outcome of a reconcile: its key is forgotten, requeued or retried; a failure is counted and logged."""

import asyncio
import logging
import math
import random
from collections.abc import Iterable
from typing import Any

from kcr.api.meta import Key
from kcr.controller.observers import ReconcileRun
from kcr.controller.retries import Backoff
from kcr.controller.sources import log_wrong_key
from kcr.controller.waits import WaitFor, Waits
from kcr.errors import (
    ApiError,
    ConflictError,
    KcrError,
    LeadershipLostError,
    RetryLater,
    TerminalError,
    TransportError,
    described,
    is_bug,
    is_namespace_ending,
    leaves,
)
from kcr.log import about_no_object, get_logger
from kcr.log.ratelimited import RateLimitedLogger
from kcr.metrics import ControllerMetrics
from kcr.stacks import own_place, trace_of
from kcr.workqueue import Reason, WorkQueue

_REQUEUE_AFTER = Reason("reconcile", "requeue_after")
_CHANGED = Reason("reconcile", "retry", detail="the awaited object changed during the reconcile")
_ANSWERED = Reason("reconcile", "retry", detail="the API server answers again")
# A conflict is nothing unusual; one that lasts for so many retries is, with the default backoff after 0.3 s.
_MANY_CONFLICTS = 6
# Of an error. The log has all of it.
_MAX_DETAIL = 200
PROBE_SECONDS = 1.0
# The codes of servers and proxies that stand in for one that is away.
_AWAY = frozenset({502, 503, 504})

_log = get_logger()


def is_unanswered(error: BaseException) -> bool:
    """Return whether an error means that the API server is unavailable."""
    return isinstance(error, TransportError) or (isinstance(error, ApiError) and error.code in _AWAY)


class Outage:
    """The keys of one controller, and one cluster, whose last reconcile had no answer from the API server.

    One line is logged for all of them, and all are retried once the server answers. While a server is away every key
    fails, and each failure doubles the key's delay: without more care the log has a line for each key and retry, and
    the length of the outage is waited for once again after it. So one of the failed keys, the probe, is retried every
    second or two whatever its delay. Once it does not fail so any more, the others are retried: whether it succeeds,
    fails otherwise or is paused, it is no probe from then on.
    """

    def __init__(self) -> None:
        # With their priorities, in the order of their first failure: the first is the probe. Invariant: empty when all
        # is well.
        self._keys: dict[Key, int] = {}
        self._failures = 0
        self._lines = RateLimitedLogger(_log)

    def add(self, key: Key, priority: int, error: str, retries: int, now: float) -> bool:
        """Note a failure and log it, or count it for the next line; return whether the key is the probe.

        Args:
            key: The key.
            priority: At which it was queued.
            error: Its error.
            retries: How often it has failed in a row.
            now: The loop's time.
        """
        self._keys[key] = priority
        self._failures += 1
        if self._failures == 1:
            self._lines.warning(now, "reconcile failed", error=error, retries=retries)
        else:
            keys, failures = len(self._keys), self._failures
            message = "reconciles fail, the API server does not answer"
            about_no_object(self._lines.warning, now, message, error=error, keys=keys, failures=failures)
        return next(iter(self._keys)) == key

    def recovered(self, key: Key) -> Iterable[tuple[Key, int]]:
        """Return the keys to retry now that one of those without an answer had one: all others, with priorities."""
        keys = self._keys
        if self._lines.left_out:
            message = "API server answers again, retrying reconciles"
            about_no_object(_log.info, message, keys=len(keys), failures=self._failures)
        self._keys, self._failures = {}, 0
        self._lines.reset()
        del keys[key]
        return keys.items()


class Outcomes:
    """Applies to the queue how the reconciles of one controller end; shared by its workers.

    Invariant: a reconcile either resets its key's backoff or makes it one failure longer, and a retry is queued before
    the key is done. A key that is requeued or retried keeps its priority.
    """

    def __init__(
        self,
        queue: WorkQueue[Key],
        metrics: ControllerMetrics,
        *,
        random: random.Random,
        expected_errors: tuple[type[Exception], ...] = (),
        waits: Waits | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        """Make them.

        Args:
            queue: The controller's queue.
            metrics: Where failures are counted.
            random: Spreads the probes of an outage.
            expected_errors: Exceptions that are logged without a traceback, as the errors of kcr are.
            waits: The keys that wait for objects; None for those of this queue alone.
            backoff: The waits for retries; None for those of this queue alone.
        """
        self._queue = queue
        self._metrics = metrics
        self._random = random
        self._expected: tuple[type[BaseException], ...] = (KcrError, *expected_errors)
        # Each cluster has an outage of its own, and each key without an answer that of its cluster.
        self._outages: dict[str, Outage] = {}
        self._unanswered_keys: dict[Key, Outage] = {}
        # The keys that cannot create objects because their namespace is terminating, which was logged.
        self._ending: set[Key] = set()
        self._waits = Waits(queue, lambda kind: None) if waits is None else waits
        self._backoff = Backoff(queue) if backoff is None else backoff

    def refuse(self, key: Any) -> None:
        """Drop an item that is not a key, which user code has added to the queue."""
        self._metrics.errors += 1
        self._queue.forget(key)
        log_wrong_key(key)

    def drop(self, key: Key) -> None:
        """Reset the backoff of a key that a gate has dropped: its failures are of before."""
        self._reset(key)
        self._waits.end(key)
        # Others may wait for its answer.
        self._end_outage(key)

    def succeed(self, run: ReconcileRun, requeue_after: float | None, priority: int | None) -> None:
        """Reset the key's backoff, and enqueue it for later when its reconciler asked for that.

        Args:
            run: The reconcile.
            requeue_after: The seconds; zero or less means at once, None never.
            priority: At which the key is queued then; None for the one that it had.
        """
        key = run.key
        # A success ends the backoff, also one that asks for its key again.
        self._reset(key)
        if self._unanswered_keys:
            self._end_outage(key)
        if self._waits.parked:
            self._waits.end(key)
        if requeue_after is None:
            run.outcome = "success"
            return
        delay = requeue_after if requeue_after > 0 else 0.0
        run.outcome, run.detail = "requeue_after", delay
        # Asked for while the key is being processed: afterwards the queue knows no priority of it.
        priority = self._queue.priority(key) if priority is None else priority
        self._queue.add_after(key, delay, priority=priority, reason=_REQUEUE_AFTER)

    def fail(self, run: ReconcileRun, error: BaseException) -> None:
        """Count and log a failure, and retry the key with backoff unless the error is terminal; park one that waits."""
        key, causes = run.key, tuple(leaves(error))
        waits = tuple(cause for cause in causes if isinstance(cause, WaitFor))
        if len(waits) == len(causes):
            failure = self._wait(run, waits)
            if failure is None:
                return
            error, causes = failure, (failure,)
        else:
            self._waits.end(key)
        self._metrics.errors += 1
        text = "; ".join(map(described, causes))
        run.outcome, run.detail, run.error, run.causes = "error", text, error, causes
        # All of the causes: with one answer among them the server is available.
        if all(map(is_unanswered, causes)):
            self._unanswered(key, causes, text)
            return
        # Before the retry: it resets the backoff.
        self._end_outage(key)
        if all(isinstance(cause, TerminalError) for cause in causes):
            self._metrics.terminal_errors += 1
            self._backoff.end(key)
            _log.error("terminal error, not retried", error=text)
            return
        is_parked = self._backoff.parks(key, causes, text)
        if not is_parked:
            self._retry(key, causes, text, _max_delay(causes))
        if all(map(is_namespace_ending, causes)):
            if key in self._ending:
                _log.debug("namespace is terminating, still retried", error=text)
                return
            self._ending.add(key)
        self._log_failure(run, error, text, self._queue.retries(key) + is_parked)

    def _reset(self, key: Key) -> None:
        self._queue.forget(key)
        self._backoff.forget(key)
        if self._ending:
            self._ending.discard(key)

    def _wait(self, run: ReconcileRun, waits: tuple[WaitFor, ...]) -> Exception | None:
        """Park a key that waits for objects; return why that is a failure, or None."""
        key = run.key
        try:
            is_parked = self._waits.park(key, waits, asyncio.get_running_loop().time())
        except Exception as error:  # that of a user's predicate as well
            return error
        run.outcome, run.detail = "requeue_after", f"waits for {' and '.join(map(str, waits))}"
        self._end_outage(key)
        if is_parked:
            self._reset(key)
        else:
            self._queue.add_rate_limited(key, priority=self._queue.priority(key), reason=_CHANGED)
        return None

    def _log_failure(self, run: ReconcileRun, error: BaseException, text: str, retries: int) -> None:
        causes = run.causes
        if all(isinstance(cause, LeadershipLostError) for cause in causes):
            # Every write of the process is refused now: the elector has one line for all of them.
            _log.debug("write refused, leadership lost", error=text, retries=retries)
            return
        unexpected = [cause for cause in causes if not isinstance(cause, self._expected)]
        if unexpected and (place := own_place(error.__traceback__)):
            run.detail = f"{text} at {place}"
        if any(map(is_bug, unexpected)):
            # A panic, in controller-runtime's terms: it costs this one reconcile, not the process.
            self._metrics.panics += 1
            _log.error("reconcile panicked", error=text, retries=retries, exc_info=trace_of(error))
        elif unexpected:
            # A failure that its author has not foreseen: the traceback tells where it comes from.
            _log.warning("reconcile failed", error=text, retries=retries, exc_info=trace_of(error))
        elif all(isinstance(cause, ConflictError) and not cause.causes for cause in causes):
            # Those with causes are of an apply: another manager owns the fields, and reading again does not help.
            level = logging.DEBUG if retries < _MANY_CONFLICTS else logging.WARNING
            _log.log(level, "conflict, requeuing", error=text, retries=retries)
        else:
            _log.warning("reconcile failed", error=text, retries=retries)

    def _end_outage(self, key: Key) -> None:
        """Retry the keys that had no answer either, if this one had none and has not failed so again.

        Its backoff is reset: an outage says nothing about the requests after it.
        """
        if key not in self._unanswered_keys:
            return
        self._queue.forget(key)
        self._backoff.end(key)
        for other, failed_at in self._unanswered_keys.pop(key).recovered(key):
            del self._unanswered_keys[other]
            self._backoff.end(other)
            self._queue.add(other, priority=failed_at, reason=_ANSWERED)

    def _unanswered(self, key: Key, causes: tuple[BaseException, ...], text: str) -> None:
        # One more than the queue knows: the retry is added below, and its delay depends on who is the probe.
        now, retries = asyncio.get_running_loop().time(), self._queue.retries(key) + 1
        outage = self._unanswered_keys[key] = self._outages.setdefault(key.cluster, Outage())
        is_probe = outage.add(key, self._queue.priority(key), text, retries, now)
        self._retry(key, causes, text, PROBE_SECONDS * (1.0 + self._random.random()) if is_probe else math.inf)

    def _retry(self, key: Key, causes: tuple[BaseException, ...], text: str, max_delay: float) -> None:
        reason = Reason("reconcile", "error", detail=text[:_MAX_DETAIL])
        self._backoff.retry(key, reason, min_delay=_retry_after(causes), max_delay=max_delay)


def _retry_after(causes: tuple[BaseException, ...]) -> float:
    return max(cause.retry_after_seconds if isinstance(cause, ApiError | RetryLater) else 0.0 for cause in causes)


def _max_delay(causes: tuple[BaseException, ...]) -> float:
    """Return how long a key waits at most: as long as all of its errors ask for, if they are of that kind."""
    asked = _retry_after(causes)
    return asked if asked and all(isinstance(cause, RetryLater) for cause in causes) else math.inf
