"""Rate limiters: the delay before a key that failed is processed again.

All limiters keep their memory in this process alone: a restart forgets it, so nothing that users see in the API
may depend on it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Hashable
from typing import Annotated, Generic, Protocol, TypeVar

from msgspec import Meta

from kcr.annotations import Positive
from kcr.arguments import checked
from kcr.tokenbucket import TokenBucket

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


class RateLimiter(Protocol[K_contra]):
    """Determines the delay of a failed key."""

    def when(self, key: K_contra) -> float:
        """Record one more failure of a key, and return its delay in seconds."""
        ...

    def retries(self, key: K_contra) -> int:
        """Return how often a key has failed since it was last forgotten."""
        ...

    def forget(self, key: K_contra) -> None:
        """Reset the key's backoff: its next failure counts as the first."""
        ...


class ItemExponential(Generic[K]):
    """Delays that double with each failure of a key: base, 2·base, 4·base, … up to a maximum.

    Keys that are never forgotten, because their object was deleted while they waited, are dropped once they have not
    failed for twice the longest delay.

    Source: client-go/util/workqueue/default_rate_limiters.go, ItemExponentialFailureRateLimiter.
    """

    @checked
    def __init__(self, base_seconds: Positive = 0.005, max_seconds: Positive = 1000.0) -> None:
        self._base = base_seconds
        self._max = max_seconds
        # Count and moment of the last failure; the key that failed longest ago comes first.
        self._counts: OrderedDict[K, tuple[int, float]] = OrderedDict()

    def when(self, key: K) -> float:
        """Record one more failure of a key, and return its delay in seconds."""
        # The exponent is bounded: 2.0 ** n overflows long before a key has failed for a week.
        return min(self._base * 2.0 ** min(self._add(key), 1000), self._max)

    def retries(self, key: K) -> int:
        """Return how often a key has failed since it was last forgotten."""
        return self._counts.get(key, (0, 0.0))[0]

    def forget(self, key: K) -> None:
        """Reset the key's backoff: its next failure counts as the first."""
        self._counts.pop(key, None)

    def _add(self, key: K) -> int:
        now = asyncio.get_running_loop().time()
        count = self.retries(key)
        self._counts[key] = (count + 1, now)
        self._counts.move_to_end(key)
        while now - next(iter(self._counts.values()))[1] > 2.0 * self._max:
            self._counts.popitem(last=False)
        return count


class BucketRateLimiter(Generic[K]):
    """At most so many retries per second, of all keys together and with bursts; keys have no history of their own.

    Source: client-go/util/workqueue/default_rate_limiters.go, BucketRateLimiter.
    """

    @checked
    def __init__(self, per_second: Positive = 10.0, burst: Annotated[int, Meta(ge=1)] = 100) -> None:
        self._bucket = TokenBucket(per_second, burst)

    def when(self, key: K) -> float:
        """Reserve the next token, and return the seconds until it is available."""
        return self._bucket.reserve(asyncio.get_running_loop().time())

    def retries(self, key: K) -> int:
        """Return 0: a bucket does not know its keys."""
        return 0

    def forget(self, key: K) -> None:
        """Do nothing: a token once reserved is spent."""


class MaxOf(Generic[K]):
    """The longest of several limiters' delays."""

    @checked
    def __init__(self, *limiters: RateLimiter[K]) -> None:
        self._limiters = limiters

    def when(self, key: K) -> float:
        """Record one more failure with all of them, and return the longest delay in seconds."""
        return max(limiter.when(key) for limiter in self._limiters)

    def retries(self, key: K) -> int:
        """Return the most failures that any of them knows of."""
        return max(limiter.retries(key) for limiter in self._limiters)

    def forget(self, key: K) -> None:
        """Have all of them forget."""
        for limiter in self._limiters:
            limiter.forget(key)


def default_limiter() -> RateLimiter[Hashable]:
    """Return a controller's default: 5 ms doubling up to 1,000 s for each key.

    There is no token bucket for all keys together, as client-go's default has it: after an outage the retries of
    thousands of keys of low priority would have reserved its tokens, and the retry of a change would wait for all of
    them. For one, give the controller `MaxOf(ItemExponential(), BucketRateLimiter())`.

    Source: controller-runtime/pkg/controller/priorityqueue/priorityqueue.go, New.
    """
    return ItemExponential()
