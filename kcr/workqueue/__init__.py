"""Work queues: keys of what changed, deduplicated, until a worker is free.

A handler calls `add` with the key of an object that changed; a worker takes a key with `get`, processes it, and calls
`done`. What the queue guarantees:

- **No key is lost.** A key that was added is handed out, or is still queued.
- **Deduplication.** A key added n times before it is handed out is handed out once: reconciling is level-triggered, so
  one look at the present state serves all n changes.
- **Never processed concurrently.** While a worker processes a key, no other worker gets it. A key added meanwhile is
  marked dirty, and queued again by `done`.
- **Priorities.** Keys of a higher priority are handed out first; within a priority in the order in which they were
  added. A key that is added again at a higher priority is raised, and never lowered. Keys that are added for an
  informer's initial list have `LOW_PRIORITY`: after a restart, what changes does not wait for what has not. Keys that
  wait age, so that none starves; `kcr.workqueue.priorities` says how.
- **Delays.** `add_after` adds a key later; of several delays of one key the earliest counts, and the highest priority.
  `add_rate_limited` takes the delay from a `RateLimiter`: exponential backoff for each key. `forget` resets a key's
  backoff, after a success.
- **Reasons.** Of each key the queue knows the last few causes why it is queued, delayed or being processed: `state`.
  They are for logs and debugging, and cost next to nothing.

Everything but `get`, `item` and `drain` is a plain call on the event loop, and therefore atomic; there are no locks. A
`get` that is cancelled loses no key. Delays and backoff are memory of this process alone: after a restart the initial
lists of the informers add every key once.
"""

from kcr.workqueue.priorities import LOW_PRIORITY
from kcr.workqueue.queue import WorkQueue
from kcr.workqueue.ratelimit import (
    BucketRateLimiter,
    ItemExponential,
    MaxOf,
    RateLimiter,
    default_limiter,
)
from kcr.workqueue.reasons import KeyState, Reason

__all__ = [
    "LOW_PRIORITY",
    "BucketRateLimiter",
    "ItemExponential",
    "KeyState",
    "MaxOf",
    "RateLimiter",
    "Reason",
    "WorkQueue",
    "default_limiter",
]
