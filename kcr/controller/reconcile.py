"""The reconciler, the part that a controller's author writes, and its result."""

import asyncio
from datetime import timedelta
from functools import wraps
from random import Random
from typing import Any, NamedTuple, Protocol, runtime_checkable

from kcr.annotations import is_number, shown
from kcr.api.explanation import Explanation
from kcr.api.meta import Key
from kcr.arguments import refuse, refuse_unknown, seconds_of
from kcr.errors import KcrError
from kcr.log import get_logger
from kcr.metrics import ControllerMetrics
from kcr.workqueue.queue import check_priority

_log = get_logger()


class Result(NamedTuple):
    """The result of a successful reconcile.

    Attributes:
        requeue_after: The time until the next reconcile without a change: a `timedelta`, or a number of seconds; zero
            or less means at once, None never.
        jitter: The worker waits longer by a random part of so much of `requeue_after`: 0.1 for up to a tenth. For a
            resync of everything now and then, `Result(requeue_after=600, jitter=0.1)`, so that the objects that
            were reconciled together at the start do not stay together.
        priority: At which the key is queued then; None for the priority that it had this time.

    Source: apimachinery/pkg/util/wait/backoff.go, Jitter; controller-runtime/pkg/reconcile/reconcile.go, Result.
    """

    requeue_after: timedelta | float | None = None
    jitter: float = 0.0
    priority: int | None = None


_new = tuple.__new__


@wraps(Result.__new__)
def _make(
    cls: type[Result], requeue_after: Any = None, jitter: float = 0.0, priority: int | None = None, **others: Any
) -> Result:
    if others:
        refuse_unknown("Result: no argument", others, Result._fields)
    return _new(cls, (requeue_after, jitter, priority))


Result.__new__ = _make  # type: ignore[method-assign,assignment]
_NOTHING = Result()


def requeue_seconds(result: object, random: Random) -> float | None:
    """Return the seconds after which a reconcile wants its key back, None for never.

    Args:
        result: A reconciler's return value, of any type.
        random: Draws the jitter.

    Raises:
        TypeError: It is no `Result`, or asks for no time or priority that there is.
    """
    # Most reconcilers ask for nothing, and an equal tuple is compared faster than three fields are read.
    if type(result) is Result and result == _NOTHING:
        return None
    if not isinstance(result, Result):
        refuse(f"reconcile returned {shown(result)}, not a kcr.Result: end it with `return kcr.Result()`")
    seconds, jitter, priority = result
    if priority is not None:
        check_priority(priority)
    # Most others ask for a number of seconds.
    if type(seconds) is not float or not -1e100 < seconds < 1e100:
        seconds = seconds_of(seconds, "requeue_after")
    if not jitter:
        return seconds
    if not is_number(jitter) or jitter < 0:
        refuse(f"jitter is {jitter!r:.100}: give it a part of requeue_after, such as 0.1")
    return seconds and seconds * (1.0 + jitter * random.random())


class Explaining(Protocol):
    """A reconciler that explains the state of its objects."""

    async def explain(self, key: Key) -> Explanation:
        """See `Reconciler`."""
        ...


class Reconciler(Protocol):
    """Moves one object towards its desired state.

    A reconciler may have a second method, which `kcr explain` and the debug port ask why an object is where it is:

    ```python
    async def explain(self, key: kcr.Key) -> kcr.Explanation:
        website = self._websites.get(key)
        if website is None:
            return kcr.Explanation(kcr.Code.NOT_FOUND, "does not exist")
        steps = (kcr.Step("the certificate is issued"),)
        return kcr.Explanation(kcr.Code.WAITING, "waits for its certificate", steps=steps)
    ```

    It is called on the event loop, at any time and concurrently with `reconcile`. It changes nothing, and has two
    seconds.
    """

    async def reconcile(self, key: Key) -> Result:
        """Read the present state, and write the difference.

        The key names an object that may have changed in any way, or been deleted: the change itself is unknown,
        and a key that changed five times is reconciled once. No key is reconciled concurrently.

        Raises:
            TerminalError: Retrying cannot help; the key rests until the object changes.
            Exception: Anything else brings the key back, later with each failure.
        """
        ...


@runtime_checkable
class ReleasesKeys(Protocol):
    """A reconciler that remembers something about keys, and drops it when another replica takes over their shard."""

    def release(self, key: Key) -> None:
        """Drop the memory of a key. Its object exists, and nothing is to be written about it."""
        ...


class DeadlineError(KcrError):
    """A reconcile took longer than its controller allows."""


class TimedReconciler:
    """A reconciler around another one: cancels its reconciles, which then fail, when they take too long."""

    def __init__(self, reconciler: Reconciler, seconds: float, metrics: ControllerMetrics) -> None:
        """Make one.

        Args:
            reconciler: The other.
            seconds: How long one reconcile may take.
            metrics: Where timeouts are counted.
        """
        self._reconciler = reconciler
        self._seconds = seconds
        self._metrics = metrics

    async def reconcile(self, key: Key) -> Result:
        """Reconcile a key, in time.

        Raises:
            DeadlineError: It took too long.
        """
        deadline = asyncio.timeout(self._seconds)
        try:
            async with deadline:
                return await self._reconciler.reconcile(key)
        except Exception as error:
            if not deadline.expired():
                raise
            self._metrics.timeouts += 1
            # The traceback shows where it was at the timeout.
            _log.warning("reconcile timed out", after_seconds=self._seconds, exc_info=error)
            raise DeadlineError(f"took longer than {self._seconds} s") from error
