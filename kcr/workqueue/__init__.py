"""Work queues: what changed waits here until a worker is free."""

from kcr.workqueue.queue import WorkQueue
from kcr.workqueue.ratelimit import Bucket, Capped, FastSlow, ItemExponential, MaxOf, RateLimiter, default_limiter

__all__ = [
    "Bucket",
    "Capped",
    "FastSlow",
    "ItemExponential",
    "MaxOf",
    "RateLimiter",
    "WorkQueue",
    "default_limiter",
]
