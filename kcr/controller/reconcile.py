"""What a controller's author writes: one pass over one key, and what it asks for next."""

import math
from datetime import timedelta
from typing import NamedTuple, Protocol

from kcr.api.meta import Key


class Result(NamedTuple):
    """How a reconcile went well.

    Attributes:
        requeue_after: When to look again although nothing has changed: a `timedelta`, or a number of seconds; zero
            or less means at once, None never.
    """

    requeue_after: timedelta | float | None = None


def requeue_seconds(result: object) -> float | None:
    """Return the seconds after which a reconcile wants its key back, None for never.

    Args:
        result: What a reconciler returned, whatever that is.

    Raises:
        TypeError: It is no `Result`, or asks for no time that there is.
    """
    if not isinstance(result, Result):
        raise TypeError(f"reconcile returned {result!r:.100}, not a kcr.Result: end it with `return kcr.Result()`")
    match result.requeue_after:
        case None:
            return None
        case timedelta() as after:
            return after.total_seconds()
        case int() | float() as seconds if not isinstance(seconds, bool) and math.isfinite(seconds):
            return float(seconds)
    raise TypeError(f"requeue_after is {result.requeue_after!r:.100}: give it a timedelta, a number of seconds or None")


class Reconciler(Protocol):
    """Brings one object towards what it should be."""

    async def reconcile(self, key: Key) -> Result:
        """Look at the world as it is now, and do what is missing.

        The key names an object that may have changed in any way, or be gone: nothing is told of what happened,
        and a key that changed five times comes once. No key is reconciled twice at the same time.

        Raises:
            TerminalError: Retrying cannot help; the key rests until the object changes.
            Exception: Anything else brings the key back, later with each failure.
        """
        ...
