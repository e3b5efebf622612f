"""The token bucket behind rate limits: of requests, retries, batched reconciles and events."""


class TokenBucket:
    """A token bucket: so many tokens a second in the long run, and a burst after a pause.

    It owes nothing while it is idle, so it needs no task and no timer; the caller brings the time, of any clock.

    Source: golang.org/x/time/rate.
    """

    __slots__ = ("_full_at", "_interval", "_slack")

    def __init__(self, per_second: float, burst: int) -> None:
        """Make a full bucket.

        Args:
            per_second: How many tokens are added a second; above zero.
            burst: How many it holds; at least one.

        Raises:
            ValueError: It would never have a token.
        """
        if per_second <= 0 or burst < 1:
            raise ValueError("a token bucket needs more than 0 tokens per second and room for at least 1")
        self._interval = 1.0 / per_second
        self._slack = (burst - 1) * self._interval
        # When the bucket will be full again; in the past while nothing is owed.
        self._full_at = float("-inf")

    def reserve(self, now: float) -> float:
        """Take one token, present or future, and return the seconds until it is available."""
        wait = self.delay(now)
        self._full_at = max(self._full_at, now) + self._interval
        return wait

    def take(self, now: float) -> bool:
        """Take one token, or the available part of the next one; return whether it was complete."""
        is_whole = self.delay(now) <= 0
        # Empty at most: unlike `reserve`, this takes no future token.
        self._full_at = min(max(self._full_at, now) + self._interval, now + self._slack + self._interval)
        return is_whole

    def delay(self, now: float) -> float:
        """Return the seconds until there is a token, and take none."""
        return max(0.0, self._full_at - self._slack - now)
