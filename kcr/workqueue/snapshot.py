"""A copy of a work queue's contents, for debugging from any thread."""

from collections.abc import Hashable, Mapping
from typing import Generic, NamedTuple, TypeVar

from kcr.workqueue.delaying import Delay
from kcr.workqueue.reasons import Reason, Reasons, as_tuple

K = TypeVar("K", bound=Hashable)


class QueueSnapshot(NamedTuple, Generic[K]):
    """The keys of a work queue. They are copied one map after the other, so a key may be in two of them, or in none.

    Attributes:
        queued: The priorities of the keys that are queued, or will be when they have been processed.
        processing: The keys being processed, and the priorities at which they were queued.
        delays: The keys that are added later.
        reasons: Why keys are queued.
        processing_reasons: Why those being processed were.
        queued_since: When queued keys were added first, in the loop's time; empty without metrics.
        processing_since: When workers took the keys being processed; empty without metrics.
    """

    queued: Mapping[K, int]
    processing: Mapping[K, int]
    delays: Mapping[K, Delay[K]]
    reasons: Mapping[K, Reasons]
    processing_reasons: Mapping[K, Reasons]
    queued_since: Mapping[Hashable, float]
    processing_since: Mapping[Hashable, float]

    @property
    def ready(self) -> dict[K, int]:
        """The priorities of the keys that wait for a worker."""
        return {key: priority for key, priority in self.queued.items() if key not in self.processing}

    def reasons_of(self, key: K) -> tuple[Reason, ...]:
        """Return why a key is queued, or else delayed, or else being processed; the oldest reason first."""
        if key in self.queued:
            return as_tuple(self.reasons.get(key))
        if (delay := self.delays.get(key)) is not None:
            return as_tuple(delay.reason)
        return as_tuple(self.processing_reasons.get(key))

    def is_in_backoff(self, key: K) -> bool:
        """Return whether a key is delayed after a failure, rather than by `requeue_after`."""
        delay = self.delays.get(key)
        if delay is None or delay.reason is None:
            return False
        return delay.reason.source == "reconcile" and delay.reason.event == "error"
