"""Work queue: deduplicating, prioritised queue of keys between event handlers and workers.

A handler calls `add` with the key of a changed object. A worker takes a key with `get`, processes it, and calls
`done`. Guarantees to handlers and workers:

- **At least once.** Every added key is returned by `get`, or is still queued. A cancelled `get` loses no key.
- **Deduplication.** A key that is added n times before `get` is returned once: reconciles are level-triggered, so one
  reconcile processes all n changes.
- **Never processed concurrently.** While a worker processes a key, no other worker gets it. A key added meanwhile is
  marked dirty, and `done` queues it again.
- **Fairness.** With `fair_by`, groups of keys of one priority, such as namespaces, take turns, each in FIFO order; with
  `in_flight`, at most so many keys of a group are processed at a time (`kcr.workqueue.in_flight`).
- **Priorities.** Keys of a higher priority come first; within a priority, FIFO. An add at a higher priority raises a
  queued key; nothing lowers it. Keys of an informer's initial list have `LOW_PRIORITY`, so changes overtake them
  after a restart. Waiting keys age, so that none starves (`kcr.workqueue.priorities`).
- **Delays.** `add_after` adds a key later; of several delays of one key the earliest counts, with the highest
  priority. `add_rate_limited` takes the delay from a `RateLimiter`: exponential backoff per key, which `forget` resets
  after a success.
- **Reasons.** `state` returns the last causes of a queued, delayed or processing key. They are for logs and
  debugging, and cost next to nothing.

All methods except `get`, `item` and `drain` are synchronous calls on the event loop, and therefore atomic, without
locks. Delays and backoff are in memory only: after a restart the informers' initial lists add every key once.
"""

from kcr.workqueue.priorities import LOW_PRIORITY
from kcr.workqueue.queue import FairBy, KeyState, MostInFlight, WorkQueue
from kcr.workqueue.ratelimit import (
    BucketRateLimiter,
    ItemExponential,
    MaxOf,
    RateLimiter,
    default_limiter,
)
from kcr.workqueue.reasons import Reason

__all__ = [
    "LOW_PRIORITY",
    "BucketRateLimiter",
    "FairBy",
    "ItemExponential",
    "KeyState",
    "MaxOf",
    "MostInFlight",
    "RateLimiter",
    "Reason",
    "WorkQueue",
    "default_limiter",
]
