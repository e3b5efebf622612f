"""Retries of failing keys: whether an event cuts a backoff short, and when a key is parked.

A failure of a reconcile for an event is no retry: it neither counts nor makes the delay longer, and the retry comes
when it was due. With `max_retries=5` a key is parked after its sixth failure in a row: it has no retry, and changes of
other objects no longer reconcile it. `docs/guide/conditions.md` says which changes do.

Failures that say nothing about the object do not count: an API server that does not answer or asks to wait, a store
that lags behind, a lost Lease, and `RetryLater`, by which a reconciler asks for a retry. A `TerminalError` is not
retried anyway. A key whose object is not in the controller's store is never parked, for no change would be seen.

Source: client-go's examples (`queue.NumRequeues(key) < maxRetries`), which drop the key instead, until any event.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import msgspec

from kcr.api.meta import Key, Resource
from kcr.api.unstructured import Unstructured
from kcr.arguments import checked_on_failure
from kcr.clock import TIMER_SLACK_SECONDS
from kcr.controller.gates import EventSink, GateDecision
from kcr.controller.own_writes import StaleStoreError
from kcr.errors import LeadershipLostError, RetryLater, TooManyRequestsError
from kcr.log import get_logger
from kcr.metrics import ControllerMetrics
from kcr.workqueue import Reason, WorkQueue

RECONCILE_AT = "kcr.dev/reconcile-at"

_NOT_COUNTED = (LeadershipLostError, RetryLater, StaleStoreError, TooManyRequestsError)
# Of an error in an event, whose message the API server limits to 1,024 bytes.
_MAX_ERROR = 500

# The state of a key that nothing but time frees.
_SLOWED = object()

# Whether an event reconciles a key in backoff; `docs/guide/conditions.md` says when.
RetryOnEvent = bool | Literal["always"]

_log = get_logger()


@checked_on_failure
def reconcile_requested_at(obj: Resource) -> str:
    """Return the annotation `kcr.dev/reconcile-at`: when a user last asked for a reconcile; empty for never.

    A reconciler may echo it in its status once it is done, for example as `lastHandledReconcileAt`.

    Source: fluxcd/pkg/apis/meta/annotations.go, ReconcileAnnotationValue and ReconcileRequestStatus.
    """
    return obj.metadata.annotations.get(RECONCILE_AT, "")


def is_requested(old: Resource, new: Resource) -> bool:
    """Return whether a change asks for a reconcile, by another value of the annotation."""
    return reconcile_requested_at(new) not in ("", reconcile_requested_at(old))


class ParkedFailure(NamedTuple):
    """A key that has failed too often.

    Attributes:
        failures: How often in a row.
        error: The last error.
    """

    failures: int
    error: str


class _Wait(msgspec.Struct, gc=False):
    """A key's wait for its retry: when that is due, after how long and why, and from when on an event cuts it short."""

    deadline: float
    delay: float
    reason: Reason
    next_event: float
    state: object


class Backoff:
    """The waits of failing keys of one controller; a gate. See the module's docstring."""

    def __init__(
        self, queue: WorkQueue[Key], on_event: RetryOnEvent = "always",
        find: Callable[[Key], Resource | None] = lambda key: None, limit: "RetryLimit | None" = None,
    ) -> None:  # fmt: skip
        """Know of no failure.

        Args:
            queue: Gets the keys to retry.
            on_event: Whether an event reconciles a key in backoff.
            find: Returns the object of a key; None when no store shows one.
            limit: Parks keys that fail too often; None to retry them endlessly.
        """
        self._limit = limit
        self._queue = queue
        self._on_event = on_event
        self._find = find
        # With "always" the slowed keys alone: the queue knows of the backoff.
        self._waits: dict[Key, _Wait] = {}
        # Of the objects of keys being reconciled, where no other event counts.
        self._states: dict[Key, object] = {}

    def check(self, key: Key) -> GateDecision:
        """Defer a key in backoff, unless an event may cut it short."""
        if self._waits and (wait := self._waits.get(key)) is not None and (seconds := self._seconds_left(key, wait)):
            self._queue.add_after(key, seconds, self._queue.priority(key), wait.reason)
            return GateDecision.DEFER
        if not self._on_event:
            self._states[key] = self._state(key)
        return GateDecision.ADMIT

    def parks(self, key: Key, causes: tuple[BaseException, ...], error: str) -> bool:
        """Count a failure, unless an event was its cause, and return whether the key is parked now.

        Args:
            key: The key.
            causes: The exceptions of its reconcile.
            error: The same as a text.
        """
        return self._limit is not None and not self._is_waiting(key) and self._limit.failed(key, causes, error)

    def _is_waiting(self, key: Key) -> bool:
        """Return whether the retry of a key is not due yet: it was reconciled for an event."""
        return bool(self._waits) and (wait := self._waits.get(key)) is not None and _now() < wait.deadline

    def retry(self, key: Key, reason: Reason, *, min_delay: float = 0.0, max_delay: float = math.inf) -> None:
        """Reconcile a key again that has failed: when its retry is due, or after a new and longer delay.

        Args:
            key: The key.
            reason: Why.
            min_delay: The seconds of a new delay at least.
            max_delay: The seconds at most.
        """
        priority = self._queue.priority(key)
        if self._is_waiting(key) and (seconds := self._waits[key].deadline - _now()) <= max_delay:
            self._queue.add_after(key, seconds, priority, reason)
            return
        delay = self._queue.add_rate_limited(
            key, min_delay=min_delay, max_delay=max_delay, priority=priority, reason=reason
        )
        if self._on_event != "always":
            # From before the reconcile: a change during it is one.
            state = self._state(key) if self._on_event else self._states.pop(key, None)
            due = asyncio.get_running_loop().time() + delay
            self._waits[key] = _Wait(due, delay, reason, 0.0 if self._on_event else math.inf, state)

    def slow(self, key: Key, seconds: float, why: str) -> None:
        """Let a key wait that has succeeded, whatever happens meanwhile."""
        reason = Reason("reconcile", "slowed", detail=why)
        self._waits[key] = _Wait(asyncio.get_running_loop().time() + seconds, seconds, reason, math.inf, _SLOWED)

    def forget(self, key: Key) -> None:
        """Drop the failures of a key: it has succeeded, or is another replica's."""
        if self._waits or self._states:
            self.end(key)
        if self._limit is not None:
            self._limit.forget(key)

    def end(self, key: Key) -> None:
        """Drop the wait of a key."""
        self._waits.pop(key, None)
        self._states.pop(key, None)

    def _seconds_left(self, key: Key, wait: _Wait) -> float:
        """Return the seconds until a key may be reconciled; 0 for now, and then an event has cut its wait short."""
        now = _now()
        if now >= wait.deadline:
            return 0.0
        if wait.state is not _SLOWED and (state := self._state(key)) != wait.state:
            wait.state = state
        elif now < wait.next_event:
            return min(wait.next_event, wait.deadline) - now
        else:
            wait.next_event = now + wait.delay / 2
        return 0.0

    def _state(self, key: Key) -> object:
        return _state(self._find(key))


def _now() -> float:
    """Return the loop's time, as late as timers may believe it is."""
    return asyncio.get_running_loop().time() + TIMER_SLACK_SECONDS


class RetryLimit:
    """Parks the keys of one controller that have failed too often in a row; a gate. See the module's docstring.

    Attributes:
        parked: The parked keys; it may be copied in any thread.
    """

    def __init__(
        self, max_retries: int, find: Callable[[Key], Resource | None], forget: Callable[[Key], None],
        metrics: ControllerMetrics, recorder: EventSink | None,
    ) -> None:  # fmt: skip
        """Know of no failure.

        Args:
            max_retries: How often a failed key is retried.
            find: Returns the object of a key; None when no store shows one.
            forget: Resets the backoff of a key that is no longer parked.
            metrics: Where parked keys are counted.
            recorder: Records a warning about each object whose key is parked; None for no events.
        """
        self.parked: dict[Key, ParkedFailure] = {}
        self._recorder = recorder
        self._max_retries = max_retries
        self._find = find
        self._forget = forget
        self._metrics = metrics
        # Failures in a row, of keys that have some.
        self._failures: dict[Key, int] = {}
        # The state of the object before the reconcile that may be the last one: a change during it counts as one.
        self._states: dict[Key, object] = {}

    def check(self, key: Key) -> GateDecision:
        """Decide whether a key stays parked."""
        if self._failures.get(key, 0) < self._max_retries:
            return GateDecision.ADMIT
        state = _state(self._find(key))
        if key in self.parked:
            if self._states.get(key) == state:
                return GateDecision.PARK
            self.forget(key)
            self._forget(key)
            _log.info("changed, no longer parked")
        self._states[key] = state
        return GateDecision.ADMIT

    def failed(self, key: Key, causes: tuple[BaseException, ...], error: str) -> bool:
        """Count a failure, and return whether the key is parked now, instead of retried.

        Args:
            key: The key.
            causes: The exceptions of its reconcile.
            error: The same as a text.
        """
        if all(isinstance(cause, _NOT_COUNTED) for cause in causes):
            return False
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        obj = self._find(key)
        if failures <= self._max_retries or obj is None:
            return False
        self.parked[key] = ParkedFailure(failures, error)
        self._metrics.parked = len(self.parked)
        remedy = f"change its spec, or set its annotation {RECONCILE_AT}: kcr reconcile"
        _log.error("parked, not retried", error=error, failures=failures, remedy=remedy)
        if self._recorder is not None:
            message = f"no longer reconciled after {failures} failures in a row: {error[:_MAX_ERROR]}; {remedy}"
            self._recorder.event(obj, "Warning", "ReconcileParked", message)
        return True

    def forget(self, key: Key) -> None:
        """Drop the failures of a key: it has succeeded, or is another replica's."""
        if self._failures.pop(key, None) is not None:
            self._states.pop(key, None)
            if self.parked.pop(key, None) is not None:
                self._metrics.parked = len(self.parked)


def _state(obj: Resource | None) -> object:
    """Return the part of an object that ends a parking when it changes."""
    if obj is None:
        return None
    metadata, version = obj.metadata, obj.metadata.generation or _content(obj)
    return metadata.uid, metadata.deletion_timestamp is None, reconcile_requested_at(obj), version


def _content(obj: Resource) -> object:
    if isinstance(obj, Unstructured):
        return {name: raw for name, raw in obj.fields.items() if name != "status"}
    return tuple(getattr(obj, name) for name in obj.__struct_fields__ if name not in ("metadata", "status"))
