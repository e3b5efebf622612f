"""Views of a work queue, of one key or of all: copies for logs and debugging, never for decisions."""

from collections.abc import Hashable, Mapping
from typing import Generic, NamedTuple, TypeVar

from kcr.workqueue.delaying import Delay
from kcr.workqueue.reasons import Reason, Reasons, as_tuple

K = TypeVar("K", bound=Hashable)


class KeyState(NamedTuple):
    """The state of one key in a queue, for logs and debugging.

    Attributes:
        queued: The priority at which it is queued; None when it is not. A key that was added while it is processed is
            queued when that ends.
        processing: The priority at which a worker took it, and processes it now; None when none does.
        delay: The seconds until it is added; None when it has no delay.
        retries: How often it failed in a row.
        reasons: Why it is queued, or why it is delayed, when it is not queued: the last eight, the oldest first.
        processing_reasons: Why it was queued when the worker took it.
        waited: For how many seconds it had been queued when the worker took it; None when none processes it, and of a
            queue without metrics.
    """

    queued: int | None
    processing: int | None
    delay: float | None
    retries: int
    reasons: tuple[Reason, ...]
    processing_reasons: tuple[Reason, ...]
    waited: float | None = None


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
