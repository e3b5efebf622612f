"""Work queues: keys of what changed, deduplicated, until a worker is free.

A handler calls `add` with the key of an object that changed; a worker takes a key with `get`, processes it, and calls
`done`. What the queue guarantees:

- **No key is lost.** A key that was added is handed out, or is still queued.
- **Deduplication.** A key added n times before it is handed out is handed out once: reconciling is level-triggered, so
  one look at the present state serves all n changes.
- **Never processed concurrently.** While a worker processes a key, no other worker gets it. A key added meanwhile is
  marked dirty, and queued again by `done`.
- **FIFO.** Keys are handed out in the order in which they were added.
- **Delays.** `add_after` adds a key later; of several delays of one key the earliest counts. `add_rate_limited` takes
  the delay from a `RateLimiter`: exponential backoff for each key, and a token bucket for all keys together. `forget`
  resets a key's backoff, after a success.

Everything but `get`, `item` and `drain` is a plain call on the event loop, and therefore atomic; there are no locks. A
`get` that is cancelled loses no key. Delays and backoff are memory of this process alone: after a restart the initial
lists of the informers add every key once.
"""

from kcr.workqueue.queue import WorkQueue
from kcr.workqueue.ratelimit import (
    BucketRateLimiter,
    Capped,
    FastSlow,
    ItemExponential,
    MaxOf,
    RateLimiter,
    default_limiter,
)

__all__ = [
    "BucketRateLimiter",
    "Capped",
    "FastSlow",
    "ItemExponential",
    "MaxOf",
    "RateLimiter",
    "WorkQueue",
    "default_limiter",
]
