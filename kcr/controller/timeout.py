"""The timeout of a controller's reconciles.

It is a reconciler around the controller's own, so that a controller without a timeout pays nothing for it.
"""

import asyncio

from kcr.api.meta import Key
from kcr.controller.reconcile import Reconciler, Result
from kcr.errors import KcrError
from kcr.log import get_logger
from kcr.metrics import ControllerMetrics

_log = get_logger()


class DeadlineError(KcrError):
    """A reconcile took longer than its controller allows."""


class TimedReconciler:
    """Another reconciler, whose reconciles are cancelled and fail when they take too long."""

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
