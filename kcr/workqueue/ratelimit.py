"""How long a key that failed waits before its next turn."""

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class RateLimiter(Generic[K]):
    """Delays that double with each failure of a key: base, 2·base, 4·base, … up to a maximum.

    Source: client-go/util/workqueue/default_rate_limiters.go, ItemExponentialFailureRateLimiter.
    """

    def __init__(self, base_seconds: float = 0.005, max_seconds: float = 1000.0) -> None:
        self._base = base_seconds
        self._max = max_seconds
        # Failures since the last success. A key that is never forgotten stays here for ever.
        self._failures: dict[K, int] = {}

    def when(self, key: K) -> float:
        """Record one more failure of a key, and return the seconds it has to wait."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # The exponent is bounded: 2.0 ** n overflows long before a key has failed for a week.
        return min(self._base * 2.0 ** min(failures, 1000), self._max)

    def retries(self, key: K) -> int:
        """Return how often a key has failed since it was last forgotten."""
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """Let the key's next failure be its first."""
        self._failures.pop(key, None)
