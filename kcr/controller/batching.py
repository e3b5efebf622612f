"""Group commit: busy objects are reconciled once per period, quiet ones at once.

A change of a quiet object is reconciled at once. An object that changes all the time, such as a Job with a thousand
pods, has a token bucket of reconciles: a burst of five, and one more per period. Beyond it changes wait for the next
token, and one reconcile, with one write, serves all of them. Only a reconcile that sent a request spends a token.
"""

import asyncio

from kcr.api.meta import Key
from kcr.tokenbucket import TokenBucket
from kcr.workqueue import Reason, WorkQueue

# How many reconciles of a quiet object are not delayed.
BURST = 5


class Batching:
    """Enqueues the keys of busy objects once per period."""

    def __init__(self, queue: WorkQueue[Key], period_seconds: float) -> None:
        """Make a batching in front of a controller's queue.

        Args:
            queue: The queue.
            period_seconds: How long one token takes to come back; 0 turns batching off.
        """
        self._queue = queue
        self._period = period_seconds
        # Of the objects that have spent a token. Dropped by `forget`.
        self._buckets: dict[Key, TokenBucket] = {}

    def enqueue(self, key: Key, priority: int = 0, reason: Reason | None = None) -> None:
        """Enqueue a key when its bucket has a token: at once while its object has been quiet.

        Args:
            key: The key.
            priority: As for `WorkQueue.add`.
            reason: As for `WorkQueue.add`.
        """
        bucket = self._buckets.get(key)
        self._queue.add_after(key, 0.0 if bucket is None else bucket.delay(_now()), priority, reason)

    def spend(self, key: Key) -> None:
        """Take a token, because a reconcile of the key has sent a request."""
        if self._period <= 0:
            return
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(1.0 / self._period, BURST)
        bucket.take(_now())

    def forget(self, key: Key) -> None:
        """Drop the bucket of a key whose object is deleted or finished."""
        self._buckets.pop(key, None)


def _now() -> float:
    return asyncio.get_running_loop().time()
