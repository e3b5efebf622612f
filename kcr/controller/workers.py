"""The worker's loop: take a key, reconcile it, and see what follows."""

import asyncio
import random
from collections.abc import Iterator

import structlog
from structlog.contextvars import bound_contextvars

from kcr.api.meta import Key
from kcr.controller.reconcile import Reconciler, Result
from kcr.errors import ApiError, ConflictError, KcrError, QueueClosedError, TerminalError
from kcr.workqueue import WorkQueue

_log = structlog.get_logger()


class Worker:
    """Reconciles keys, one after the other, until its queue is shut down and empty."""

    def __init__(self, controller: str, queue: WorkQueue[Key], reconciler: Reconciler, random: random.Random) -> None:
        self._controller = controller
        self._queue = queue
        self._reconciler = reconciler
        self._random = random

    async def run(self) -> None:
        """Work until the queue is shut down and empty."""
        while True:
            try:
                async with self._queue.item() as key:
                    await self._process(key)
            except QueueClosedError:
                return
            # A reconcile that never waits would keep the loop for as long as keys are there.
            await asyncio.sleep(0)

    async def _process(self, key: Key) -> None:
        run_id = f"{self._random.getrandbits(64):016x}"
        with bound_contextvars(
            controller=self._controller, namespace=key.namespace, name=key.name, reconcile_id=run_id
        ):
            try:
                result = await self._reconciler.reconcile(key)
            except asyncio.CancelledError as error:
                if _is_stopping():
                    raise
                # Somebody cancelled a task that this reconcile waited for: its own failure, not our end.
                self._failed(key, error)
            except Exception as error:  # the one place where any failure of a reconcile ends
                self._failed(key, error)
            else:
                self._succeeded(key, result)

    def _succeeded(self, key: Key, result: Result) -> None:
        self._queue.forget(key)
        if result.requeue_after is not None:
            self._queue.add_after(key, result.requeue_after.total_seconds())

    def _failed(self, key: Key, error: BaseException) -> None:
        causes = tuple(_leaves(error))
        if all(isinstance(cause, TerminalError) for cause in causes):
            _log.error("reconcile failed for good", error=_text(causes))
            return
        at_least = max(cause.retry_after_seconds if isinstance(cause, ApiError) else 0.0 for cause in causes)
        self._queue.add_rate_limited(key, at_least=at_least)
        retries = self._queue.retries(key)
        if all(isinstance(cause, ConflictError) for cause in causes):
            _log.debug("reconcile met a newer object", error=_text(causes), retries=retries)
        elif all(isinstance(cause, KcrError) for cause in causes):
            _log.warning("reconcile failed", error=_text(causes), retries=retries)
        else:
            _log.error("reconcile failed with a bug", error=_text(causes), retries=retries, exc_info=error)


def _is_stopping() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors themselves, out of whatever groups they come in."""
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _leaves(part)
    else:
        yield error


def _text(causes: tuple[BaseException, ...]) -> str:
    return "; ".join(f"{type(cause).__name__}: {cause}" for cause in causes)
