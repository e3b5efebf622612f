"""Gates: each decides whether a key that a worker has taken is reconciled now.

A controller gives its worker a tuple of them; the first that does not admit a key decides. So a gate that counts an
admission as a reconcile, such as the minimal interval, is the last.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

from kcr.api.meta import Key, Resource
from kcr.informer import Handler
from kcr.log import get_logger
from kcr.metrics import ControllerMetrics
from kcr.workqueue import Reason, WorkQueue

PAUSED = "kcr.dev/paused"
DRY_RUN_INTERVAL_SECONDS = 10.0

_log = get_logger()
_TOO_EARLY = Reason("reconcile", "deferred", detail="the last reconcile was just now, and this is a dry run")


class GateDecision(Enum):
    """A gate's decision about a key.

    Attributes:
        ADMIT: The key passes this gate.
        DEFER: The key is not reconciled now. The gate enqueues it again, at the priority that it had.
        DROP: The key is not reconciled, and its backoff is reset: an event will enqueue it when that changes.
        PARK: The key is not reconciled, and stays a failing one: an event will enqueue it when that changes.
    """

    ADMIT = "admit"
    DEFER = "defer"
    DROP = "drop"
    PARK = "park"


class Gate(Protocol):
    """Decides which keys of one controller are reconciled."""

    def check(self, key: Key) -> GateDecision:
        """Decide about a key that a worker is about to reconcile.

        It is called on the event loop, and only while the key is being processed.

        Raises:
            KcrError: The key was deferred for too long: it fails, as if its reconcile had, and is retried with backoff.
        """
        ...


class EventSink(Protocol):
    """Records events, as `kcr.EventRecorder` does."""

    def event(self, about: Resource, type: str, reason: str, message: str) -> None:  # noqa: A002  # the field's name
        """Record an event about an object."""


class HandlingGate(Handler[Any]):
    """A gate that handles the events of the objects that the keys name."""

    @abstractmethod
    def check(self, key: Key) -> GateDecision:
        """Decide about a key; see `Gate.check`."""

    def shard_of(self, key: Key) -> int | None:
        """Return the shard in whose name the reconcile of an admitted key writes; None without sharding."""
        return None


def is_paused(obj: Resource) -> bool:
    """Return whether an object's annotations say that no controller reconciles it."""
    return obj.metadata.annotations.get(PAUSED) == "true"


def is_resumed(old: Resource, new: Resource) -> bool:
    """Return whether a change ends a pause."""
    return is_paused(old) and not is_paused(new)


class Pauses:
    """Drops the keys of paused objects; a gate. The change that ends a pause enqueues its key.

    The annotation `kcr.dev/paused: "true"` keeps each controller whose keys name objects of that kind from reconciling
    it, its deletion included. All else continues: the store follows the object, handlers enqueue its key, and the key
    is dropped when a worker takes it. Nothing is lost: the change that removes the annotation enqueues the key.

    Source: cluster-api/util/annotations/helpers.go, HasPaused: there any value counts, and deletion is paused as well.
    """

    def __init__(
        self, metrics: ControllerMetrics, find: Callable[[Key], Resource | None], recorder: EventSink | None
    ) -> None:
        """Know of no paused object.

        Args:
            metrics: Counts the paused objects.
            find: Returns the object of a key; None when no store shows one, and then the key is not paused.
            recorder: Records begin and end of each pause as events of the object; None for no events. After a restart
                of the controller the begin is recorded again; an end while no controller runs is not.
        """
        self._find = find
        self._recorder = recorder
        # The uids of the paused objects whose keys have come: one log line for each pause, however many events.
        self._uids: dict[Key, str] = {}
        self._metrics = metrics

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys of paused objects, as far as they have come; it may be read in any thread."""
        return tuple(self._uids)

    def check(self, key: Key) -> GateDecision:
        """Drop a key whose object is paused; the first decision that is new is logged."""
        obj = self._find(key)
        if obj is None or not is_paused(obj):
            if self._uids and self._uids.pop(key, None) is not None:
                self._metrics.paused = len(self._uids)
                _log.info("resumed" if obj is not None else "paused object was deleted")
                self._record(obj, "ReconcileResumed", f"reconciled again: the annotation {PAUSED} is no longer true")
            return GateDecision.ADMIT
        if self._uids.get(key) != obj.metadata.uid:
            self._uids[key] = obj.metadata.uid
            self._metrics.paused = len(self._uids)
            _log.info("paused, not reconciled", annotation=f"{PAUSED}=true", version=obj.metadata.resource_version)
            self._record(obj, "ReconcilePaused", f"not reconciled while the annotation {PAUSED} is true")
        return GateDecision.DROP

    def _record(self, obj: Resource | None, reason: str, message: str) -> None:
        if self._recorder is not None and obj is not None:
            self._recorder.event(obj, "Normal", reason, message)


class MinInterval:
    """Keeps a minimum of time between one reconcile of a key and the next: a gate, and the last one of a worker.

    For dry runs, in which no write ever shows up: a reconciler that asks to continue at once would never end. An
    admitted key counts as reconciled.
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
