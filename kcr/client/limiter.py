"""A limit on requests per second, with bursts."""

import asyncio

import structlog

# Shorter waits are not worth a line.
_TOLD_SECONDS = 0.05

_log = structlog.get_logger("kcr.client")


class RateLimit:
    """A token bucket on the loop's time. Those who wait are served in the order they came.

    Attributes:
        held_back: How many requests have had to wait for longer than 50 ms. The log names each with the
            controller and the key that its reconcile was about.
    """

    def __init__(self, qps: float, burst: int) -> None:
        """Start with a full bucket.

        Args:
            qps: How many requests per second in the long run; above zero.
            burst: How many may go at once after a pause; at least one.
        """
        if qps <= 0 or burst < 1:
            raise ValueError("a rate limit needs qps above 0 and a burst of at least 1")
        self.held_back = 0
        self._interval = 1.0 / qps
        self._slack = (burst - 1) * self._interval
        # When the bucket will be full again; in the past while nothing is owed.
        self._full_at = float("-inf")

    def reserve(self, now: float) -> float:
        """Take one token, perhaps one of the future, and return how long to wait for it in seconds."""
        wait = max(0.0, self._full_at - self._slack - now)
        self._full_at = max(self._full_at, now) + self._interval
        return wait

    async def wait(self) -> None:
        """Return when the next request may go."""
        seconds = self.reserve(asyncio.get_running_loop().time())
        if seconds > _TOLD_SECONDS:
            self.held_back += 1
            _log.debug("held back by the rate limit", seconds=round(seconds, 3))
        if seconds > 0:
            await asyncio.sleep(seconds)
