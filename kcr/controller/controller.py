"""A controller: a queue of keys, and the workers that reconcile them."""

import asyncio
import random

import structlog

from kcr.api.meta import Key
from kcr.controller.reconcile import Reconciler
from kcr.controller.workers import Worker
from kcr.workqueue import RateLimiter, WorkQueue

_log = structlog.get_logger()

# How long running reconciles may go on once the controller is told to stop. Together with the last events
# it must fit into the five seconds a process has to end in.
GRACE_SECONDS = 2.0


class Controller:
    """Runs a reconciler over the keys in `queue`, several at a time but never one key twice.

    Attributes:
        name: Names the controller in logs; unique in a manager.
        queue: Where handlers add keys.
    """

    def __init__(
        self,
        name: str,
        reconciler: Reconciler,
        *,
        workers: int = 1,
        limiter: RateLimiter[Key] | None = None,
        random: random.Random,
    ) -> None:
        if workers < 1:
            raise ValueError(f"controller {name}: {workers} workers do no work")
        self.name = name
        self.queue: WorkQueue[Key] = WorkQueue(limiter)
        self._workers = workers
        self._worker = Worker(name, self.queue, reconciler, random)

    async def run(self) -> None:
        """Reconcile until cancelled. Then no key is begun, and running reconciles get a few seconds to finish."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._worker.run(), name=f"{self.name} worker {number}")
            try:
                # Ends by cancellation only.
                await asyncio.get_running_loop().create_future()
            finally:
                await self._stop()

    async def _stop(self) -> None:
        self.queue.shut_down(discard=True)
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await self.queue.drain()
        except TimeoutError:
            _log.warning("reconciles cut off", controller=self.name, after_seconds=GRACE_SECONDS)
