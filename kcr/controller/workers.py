"""The worker's loop: take a key, reconcile it, and see what follows."""

import asyncio
import random
from functools import partial

import structlog
from structlog.contextvars import bind_contextvars

from kcr.api.meta import Key
from kcr.controller.parking import Parking, StaleStoreError
from kcr.controller.reconcile import Reconciler, Result
from kcr.errors import ApiError, ConflictError, KcrError, QueueClosedError, TerminalError, leaves
from kcr.metrics import ControllerMetrics, Outcome
from kcr.workqueue import WorkQueue

_log = structlog.get_logger()

# A shorter rest may be too small to move a clock, and would come round for ever.
_LEAST_SECONDS = 0.001


class DeadlineError(KcrError):
    """A reconcile took longer than its controller allows."""


class Worker:
    """Reconciles keys, one after the other, until its queue is shut down and empty."""

    def __init__(  # noqa: PLR0913  # what a controller hands on, all by name
        self,
        controller: str,
        queue: WorkQueue[Key],
        reconciler: Reconciler,
        *,
        random: random.Random,
        metrics: ControllerMetrics,
        parking: Parking | None = None,
        seconds: float | None = None,
    ) -> None:
        """Make a worker.

        Args:
            controller: Whose worker it is, for the logs.
            queue: Where the keys are.
            reconciler: What to do with one.
            random: Makes the ids of the runs.
            metrics: Where runs are counted.
            parking: Which keys have to rest; None for none.
            seconds: How long one reconcile may take; None for no limit.
        """
        self._controller = controller
        self._queue = queue
        self._reconciler = reconciler
        self._random = random
        self._metrics = metrics
        self._parking = parking
        self._seconds = seconds

    async def run(self) -> None:
        """Work until the queue is shut down and empty."""
        # A worker is a task of its own, so all this is for the log lines of its reconciles alone.
        bind_contextvars(controller=self._controller)
        while True:
            try:
                key = await self._queue.get()
            except QueueClosedError:
                return
            try:
                await self._process(key)
            finally:
                self._queue.done(key)
            # A reconcile that never waits would keep the loop for as long as keys are there.
            await asyncio.sleep(0)

    async def _process(self, key: Key) -> None:
        run_id = f"{self._random.getrandbits(64):016x}"
        bind_contextvars(namespace=key.namespace, name=key.name, reconcile_id=run_id)
        if self._parks(key):
            return
        metrics, now = self._metrics, asyncio.get_running_loop().time
        outcome: Outcome = "cancelled"
        began = now()
        metrics.active += 1
        try:
            outcome = await self._reconcile(key)
        finally:
            metrics.active -= 1
            metrics.ended[outcome] += 1
            metrics.seconds.observe(now() - began)

    def _parks(self, key: Key) -> bool:
        """Return whether a key must not be reconciled now; then it comes back by itself."""
        if self._parking is None:
            return False
        try:
            return self._parking.rests(key, partial(self._queue.add, key))
        except StaleStoreError as error:
            self._failed(key, error)
            return True

    async def _reconcile(self, key: Key) -> Outcome:
        try:
            result = await (self._reconciler.reconcile(key) if self._seconds is None else self._in_time(key))
        except asyncio.CancelledError as error:
            if _is_stopping():
                raise
            # Somebody cancelled a task that this reconcile waited for: its own failure, not our end.
            return self._failed(key, error)
        except Exception as error:  # the one place where any failure of a reconcile ends
            return self._failed(key, error)
        return self._succeeded(key, result)

    async def _in_time(self, key: Key) -> Result:
        deadline = asyncio.timeout(self._seconds)
        try:
            async with deadline:
                return await self._reconciler.reconcile(key)
        except Exception as error:
            if not deadline.expired():
                raise
            self._metrics.timeouts += 1
            # The traceback tells where it was when time was up.
            _log.warning("reconcile cut off", after_seconds=self._seconds, exc_info=error)
            raise DeadlineError(f"took longer than {self._seconds} s") from error

    def _succeeded(self, key: Key, result: Result) -> Outcome:
        self._queue.forget(key)
        if result.requeue_after is None:
            return "success"
        seconds = result.requeue_after.total_seconds()
        self._queue.add_after(key, max(seconds, _LEAST_SECONDS) if seconds > 0 else 0.0)
        return "requeue_after"

    def _failed(self, key: Key, error: BaseException) -> Outcome:
        self._metrics.errors += 1
        causes = tuple(leaves(error))
        if all(isinstance(cause, TerminalError) for cause in causes):
            self._metrics.terminal += 1
            _log.error("reconcile failed for good", error=_text(causes))
            return "error"
        at_least = max(cause.retry_after_seconds if isinstance(cause, ApiError) else 0.0 for cause in causes)
        self._queue.add_rate_limited(key, at_least=at_least)
        retries = self._queue.retries(key)
        if all(isinstance(cause, ConflictError) for cause in causes):
            _log.debug("reconcile met a newer object", error=_text(causes), retries=retries)
        elif all(isinstance(cause, KcrError) for cause in causes):
            _log.warning("reconcile failed", error=_text(causes), retries=retries)
        else:
            # What other runtimes call a panic: it costs this one run, not the process.
            self._metrics.panics += 1
            _log.error("reconcile failed with a bug", error=_text(causes), retries=retries, exc_info=error)
        return "error"


def _is_stopping() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _text(causes: tuple[BaseException, ...]) -> str:
    return "; ".join(f"{type(cause).__name__}: {cause}" for cause in causes)
