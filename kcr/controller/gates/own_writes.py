"""Read-your-writes: defers a key until the stores show its last reconcile's writes (`kcr.controller.own_writes`).

It observes reconciles as well: an event that arrives during one is judged when that ends, because it may be the echo of
a write whose answer is still on its way.
"""

from functools import partial

from kcr.api.meta import Key
from kcr.controller.gates import GateDecision
from kcr.controller.observers import Observer, ReconcileRun
from kcr.controller.own_writes import OwnWrites
from kcr.workqueue import KeyState, Reason, WorkQueue

_STALE_STORE = Reason("reconcile", "deferred", detail="a store did not show our own write yet")
_UNSEEN_WRITE = Reason("reconcile", "unseen write", detail="an object that was written is gone")


class ReadYourWrites(Observer):
    """Defers keys whose stores lag behind the writes of their last reconcile; the gate of a controller's `OwnWrites`.

    As an observer it is the innermost: `OwnWrites.end` follows the reconcile directly, so no failure of another
    observer loses an event that arrived meanwhile.
    """

    def __init__(self, own_writes: OwnWrites, queue: WorkQueue[Key]) -> None:
        """Make the gate.

        Args:
            own_writes: Knows what was written.
            queue: Gets the keys that were deferred.
        """
        self._own_writes = own_writes
        self._queue = queue

    def check(self, key: Key) -> GateDecision:
        """Defer a key whose stores do not show our own writes yet; it is enqueued when they do, or after 0.5 s.

        Raises:
            StaleStoreError: It was deferred for 0.5 s, and a store still lags.
        """
        if not self._own_writes.has_written(key):
            return GateDecision.ADMIT
        # The queue forgets what it knows of the key when this turn is done.
        enqueue = partial(self._enqueue_deferred, key, self._queue.state(key))
        return GateDecision.DEFER if self._own_writes.defer_if_stale(key, enqueue) else GateDecision.ADMIT

    def begin(self, run: ReconcileRun) -> None:
        """Let the events of the key wait from now on."""
        self._own_writes.begin(run.key)

    def end(self, run: ReconcileRun) -> None:
        """Enqueue the key for the events that were no echoes, and later for a write that no store shows."""
        key, queue = run.key, self._queue
        self._own_writes.end(key, partial(queue.add, key, priority=queue.priority(key), reason=_UNSEEN_WRITE))

    def _enqueue_deferred(self, key: Key, state: KeyState) -> None:
        """Queue a key again that was not reconciled, as it had been queued."""
        for reason in (*state.processing_reasons, _STALE_STORE):
            self._queue.add(key, state.processing or 0, reason)
