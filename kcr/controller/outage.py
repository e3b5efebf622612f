"""Reconciles that fail because the API server does not answer: one line for all, and all retried once it answers.

While a server is away every key fails, and each failure doubles the key's delay: without more care the log has a
line for each key and retry, and what the outage lasted is waited for once again after it. So one of the failed keys,
the probe, is retried every second or two whatever its delay. Once it does not fail so any more, the others are retried:
whether it succeeds, fails otherwise or is paused, it is no probe from then on.
"""

from collections.abc import Iterable

from kcr.api.meta import Key
from kcr.errors import ApiError, TransportError
from kcr.log import get_logger
from kcr.log.ratelimited import RateLimitedLogger

PROBE_SECONDS = 1.0

# The codes of servers and proxies that stand in for one that is away.
_AWAY = frozenset({502, 503, 504})

_log = get_logger()


def is_unanswered(error: BaseException) -> bool:
    """Return whether an error means that the API server is unavailable."""
    return isinstance(error, TransportError) or (isinstance(error, ApiError) and error.code in _AWAY)


class Outage:
    """The keys of one controller whose last reconcile had no answer from the API server."""

    def __init__(self) -> None:
        # With their priorities, in the order of their first failure: the first is the probe. Invariant: empty when all
        # is well.
        self._keys: dict[Key, int] = {}
        self._failures = 0
        self._lines = RateLimitedLogger(_log)

    def add(self, key: Key, priority: int, error: str, retries: int, now: float) -> bool:
        """Note a failure and log it, or count it for the next line; return whether the key is the probe.

        Args:
            key: The key.
            priority: At which it was queued.
            error: Its error.
            retries: How often it has failed in a row.
            now: The loop's time.
        """
        self._keys[key] = priority
        self._failures += 1
        if self._failures == 1:
            self._lines.warning(now, "reconcile failed", error=error, retries=retries)
        else:
            keys, failures = len(self._keys), self._failures
            message = "reconciles fail, the API server does not answer"
            self._lines.warning(now, message, error=error, keys=keys, failures=failures)
        return next(iter(self._keys)) == key

    def has(self, key: Key) -> bool:
        """Return whether the last reconcile of a key had no answer."""
        return key in self._keys

    def recovered(self, key: Key) -> Iterable[tuple[Key, int]]:
        """Return the keys to retry now that a key had an answer: all that had none, if it was one of them.

        Each comes with its priority.
        """
        if key not in self._keys:
            return ()
        keys = self._keys
        if self._lines.left_out:
            _log.info("API server answers again, retrying reconciles", keys=len(keys), failures=self._failures)
        self._keys, self._failures = {}, 0
        self._lines.reset()
        del keys[key]
        return keys.items()
