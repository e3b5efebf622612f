"""The limit of retries: a key that has failed too often in a row is parked, until its object changes.

With `add_controller(max_retries=5)` a key is reconciled six times at most, with backoff. After the sixth failure it is
parked: it has no retry, and changes of other objects no longer reconcile it. It is reconciled again, with a new count,

- after a change of its object's `metadata.generation`, which the API server increases with every change of the spec.
  Objects without a generation, such as ConfigMaps, count as changed by any change outside of metadata and status;
- when the object is deleted, is being deleted, or is created again;
- when the annotation `kcr.dev/reconcile-at` gets another value: `kcr reconcile KIND/NAME` sets it;
- by another process: it begins without parked keys, after a restart, an election or a move of the shard.

Failures that say nothing about the object do not count: an API server that does not answer or asks to wait, a store
that lags behind, a lost Lease, and `RetryLater`, by which a reconciler asks for a retry. A `TerminalError` is not
retried anyway. A key whose object is not in the controller's store is never parked, for no change would be seen.

Source: client-go's examples (`queue.NumRequeues(key) < maxRetries`), which drop the key instead, until any event.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from kcr.api.meta import Key, Resource
from kcr.api.unstructured import Unstructured
from kcr.arguments import checked_on_failure
from kcr.controller.gates import EventSink, GateDecision
from kcr.controller.own_writes import StaleStoreError
from kcr.errors import LeadershipLostError, RetryLater, TooManyRequestsError
from kcr.informer import Store
from kcr.log import get_logger
from kcr.metrics import ControllerMetrics

RECONCILE_AT = "kcr.dev/reconcile-at"

_NOT_COUNTED = (LeadershipLostError, RetryLater, StaleStoreError, TooManyRequestsError)
# Of an error in an event, whose message the API server limits to 1,024 bytes.
_MAX_ERROR = 500

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


class RetryLimit:
    """Parks the keys of one controller that have failed too often in a row; a gate. See the module's docstring.

    Attributes:
        parked: The parked keys; it may be copied in any thread.
    """

    def __init__(
        self, max_retries: int, store: Callable[[], Store[Any] | None], forget: Callable[[Key], None],
        metrics: ControllerMetrics, recorder: EventSink | None,
    ) -> None:  # fmt: skip
        """Know of no failure.

        Args:
            max_retries: How often a failed key is retried.
            store: Returns the store of the objects that the keys name; None when they name none that is known.
            forget: Resets the backoff of a key that is no longer parked.
            metrics: Where parked keys are counted.
            recorder: Records a warning about each object whose key is parked; None for no events.
        """
        self.parked: dict[Key, ParkedFailure] = {}
        self._recorder = recorder
        self._max_retries = max_retries
        self._store = store
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
        state = _state(self._object(key))
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
        obj = self._object(key)
        if failures <= self._max_retries or obj is None:
            return False
        self.parked[key] = ParkedFailure(failures, error)
        self._metrics.parked = len(self.parked)
        remedy = f"change its spec, or set its annotation {RECONCILE_AT}: kcr reconcile"
        _log.error("parked, not retried", error=error, failures=failures, remedy=remedy)
        if self._recorder is not None:
            message = f"not reconciled any more after {failures} failures in a row: {error[:_MAX_ERROR]}; {remedy}"
            self._recorder.event(obj, "Warning", "ReconcileParked", message)
        return True

    def forget(self, key: Key) -> None:
        """Drop the failures of a key: it has succeeded, or is another replica's."""
        if self._failures.pop(key, None) is not None:
            self._states.pop(key, None)
            if self.parked.pop(key, None) is not None:
                self._metrics.parked = len(self.parked)

    def _object(self, key: Key) -> Resource | None:
        store = self._store()
        return store.get(key) if store is not None and store.synced and not store.is_closed else None


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
