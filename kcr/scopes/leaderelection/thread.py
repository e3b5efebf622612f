"""An elector on a thread and an event loop of its own: a busy program does not lose its lease, a blocked one does."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from random import Random

from kcr.client import Client
from kcr.clock import Clock
from kcr.log import get_logger
from kcr.scopes.leaderelection.config import LeaderElectionConfig
from kcr.scopes.leaderelection.elector import RELEASE_SECONDS, Campaign
from kcr.scopes.leaderelection.leadership import Leadership

_log = get_logger()


class ElectionLoop:
    """A thread with an event loop of its own, on which a campaign runs, and the heartbeat of the program's loop."""

    def __init__(self, config: LeaderElectionConfig) -> None:
        self._config = config
        # When the program's loop last ran, in the time of the thread's loop.
        self._heartbeat = 0.0

    async def run(self, campaign: Callable[[], Awaitable[None]], on_ending: Callable[[], None]) -> None:
        """Run a campaign until it ends or this is cancelled; the thread has ended then.

        Args:
            campaign: Runs on the thread's loop.
            on_ending: Called on the program's loop at the end, at once, while the campaign may still release Leases.
        """
        main, own = asyncio.get_running_loop(), asyncio.new_event_loop()
        ended: asyncio.Future[None] = main.create_future()
        self._heartbeat = own.time()

        async def elect() -> None:
            await campaign()

        def run_elector() -> None:
            failure: BaseException | None = None
            try:
                with asyncio.Runner(loop_factory=lambda: own) as runner:
                    runner.run(elect())
            except asyncio.CancelledError:
                pass
            except BaseException as error:
                failure = error
            main.call_soon_threadsafe(_settle, ended, failure)

        threading.Thread(target=run_elector, name="leader election", daemon=True).start()
        try:
            while not ended.done():
                self._heartbeat = own.time()
                await asyncio.wait((ended,), timeout=self._config.retry_period / 2)
        finally:
            # At once, while the release is still on its way.
            on_ending()
            if not ended.done():
                with suppress(RuntimeError):  # the loop is closed: the elector has just ended by itself
                    own.call_soon_threadsafe(_cancel_all, own)
                # A name that is being resolved keeps the thread: it ends with the process then.
                await asyncio.wait((ended,), timeout=2 * RELEASE_SECONDS)
        if ended.done():
            ended.result()
        else:
            _log.warning("leader election does not end", lease=str(self._config.key))

    def is_blocked(self) -> bool:
        """Return whether the program's loop has been blocked for longer than the renew deadline."""
        return asyncio.get_running_loop().time() - self._heartbeat > self._config.renew_deadline


class ElectorThread(Leadership):
    """Elects a leader as `LeaderElector` does, with connections, a thread and a loop of its own.

    A callback that blocks the program's loop for a few seconds delays no renewal. The program's loop sends a heartbeat
    meanwhile: once that is older than the renew deadline the lease is not renewed any more, and another process takes
    over.
    """

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[Client]],
        config: LeaderElectionConfig,
        *,
        clock: Clock,
        random: Random,
    ) -> None:
        """Make an elector; its thread lives while `run` runs.

        Args:
            connect: Opens the connections of the elector, on its own loop.
            config: The Lease, the identity and the durations.
            clock: For the times in the Lease, and for the fence.
            random: For pauses.
        """
        super().__init__(config, clock)
        self._connect = connect
        self._random = random
        self._loop = ElectionLoop(config)

    async def run(self) -> None:
        """Campaign, then renew until cancelled; the lease is released and the thread has ended then.

        Raises:
            LeadershipLostError: The lease could not be renewed in time, or another process has it.
        """
        main = asyncio.get_running_loop()

        async def elect() -> None:
            async with self._connect() as client:
                campaign = Campaign(
                    self,
                    client,
                    random=self._random,
                    is_blocked=self._loop.is_blocked,
                    on_elected=lambda: main.call_soon_threadsafe(self.elected.set),
                )
                await campaign.run()

        await self._loop.run(elect, self.elected.clear)


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.cancel()


def _settle(ended: "asyncio.Future[None]", failure: BaseException | None) -> None:
    if failure is None:
        ended.set_result(None)
    else:
        ended.set_exception(failure)
        # Retrieved: `run` raises it, unless it is cancelled; the campaign has logged it.
        ended.exception()
