"""Work queues: what changed waits here until a worker is free."""

from kcr.workqueue.queue import WorkQueue
from kcr.workqueue.ratelimit import RateLimiter

__all__ = ["RateLimiter", "WorkQueue"]
