"""The operator as processes that crash and restart; with a hand-over two replicas of which one leads."""

import asyncio
import itertools
from collections.abc import Callable, Collection, Mapping
from contextvars import Context, copy_context
from random import Random

from kcr.app.plugins import Setup, attach
from kcr.client import Client, Transport
from kcr.clock import Clock
from kcr.controller import Controller
from kcr.manager import Manager
from kcr.scopes.leaderelection import LeaderElectionConfig, LeaderElector
from kcr_devcluster.testing.crash import CrashingTransport
from kcr_devcluster.testing.explore.history import Step
from kcr_devcluster.testing.explore.judging import RequestJudge
from kcr_devcluster.testing.explore.line import Line, now
from kcr_devcluster.testing.explore.plans import Plan
from kcr_devcluster.testing.explore.recorder import ACTOR, OPERATOR, Recorder

# How long a crashed operator is down.
RESTART_SECONDS = 2.0
# An operator that ends by itself so often is not started again.
_MOST_EXITS = 5


class Operator:
    """The operator: one process after the other, each with fresh memory.

    Attributes:
        ready: Set while its stores are synced and its workers run.
        ready_since: When it became so last.
        has_webhooks: Whether it serves webhooks.
        plan: What goes wrong.
    """

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        setups: Callable[[], Mapping[str, Setup]],
        plan: Plan,
        recorder: Recorder,
    ) -> None:
        """Prepare to run it.

        Args:
            transport: The way to the server.
            clock: The source of time.
            setups: Returns the functions that attach its controllers.
            plan: What goes wrong.
            recorder: Notes what happens.
        """
        self._transport, self._clock, self._setups = transport, clock, setups
        self.plan: Plan = plan
        self._recorder = recorder
        self._manager: Manager | None = None
        self._exits = 0
        self._numbers = itertools.count(1)
        self.ready: asyncio.Event = asyncio.Event()
        self.ready_since: float = 0.0
        self.has_webhooks: bool = False

    async def run(self) -> None:
        """Run one process after the other until cancelled."""
        # A process that has crashed may take a while to end, and the next one does not wait for it.
        async with asyncio.TaskGroup() as group:
            if self.plan.has("hand-over"):
                group.create_task(self._replace_for_ever(group, stands_by=True))
            await self._replace_for_ever(group)

    async def _replace_for_ever(self, group: asyncio.TaskGroup, *, stands_by: bool = False) -> None:
        if stands_by:
            await self.ready.wait()
        while True:
            await self._live(group)
            self._say(f"restarts {RESTART_SECONDS:.0f} s later, with fresh memory")
            await asyncio.sleep(RESTART_SECONDS)

    async def _live(self, group: asyncio.TaskGroup) -> None:
        """Run one process until it crashes."""
        number = next(self._numbers)
        process = CrashingTransport(self._transport)
        client = Client(Line(process, self.plan, self._recorder, group, self.ready.clear))
        elector = self._elector(client, number)
        manager = Manager(client, clock=self._clock, random=Random(number), leader_election=elector)
        attach(self._setups(), manager, {}, take_over=True)
        self.has_webhooks = bool(manager.webhooks.paths)
        manager.request_observers.append(RequestJudge(manager, self._recorder))
        tasks = [group.create_task(self._run(manager, process)), group.create_task(self._get_ready(manager))]
        try:
            await process.crashed.wait()
        finally:
            if self._manager is manager:
                self.ready.clear()
            for controller in manager.controllers.values():
                controller.skip_grace_period()
            for task in tasks:
                task.cancel()

    def _elector(self, client: Client, number: int) -> LeaderElector | None:
        if not self.plan.has("hand-over"):
            return None
        config = LeaderElectionConfig(name="explore", identity=f"replica-{number}")
        return LeaderElector(client, config, clock=self._clock, random=Random(number))

    async def _get_ready(self, manager: Manager) -> None:
        await manager.wait_ready()
        if isinstance(manager.elector, LeaderElector):
            await manager.elector.elected.wait()
        if self._manager is not None and self.plan.has("hand-over"):
            self._say("leads from now on")
        self._manager, self.ready_since = manager, now()
        self.ready.set()

    async def _run(self, manager: Manager, process: CrashingTransport) -> None:
        try:
            await manager.run()
        except Exception as error:
            self._exits += 1
            if self._exits >= _MOST_EXITS or not self.plan.faults:
                raise
            self._say(f"ends: {type(error).__name__}: {error}")
            process.crash_after(0)

    def _say(self, text: str) -> None:
        self._recorder.steps.append(Step(now(), OPERATOR, "", text))

    @property
    def is_idle(self) -> bool:
        """Whether no key waits for a worker or is being processed."""
        queues = [one.queue.snapshot() for one in self._controllers()]
        return not any(queue.queued or queue.processing for queue in queues)

    def failing(self) -> dict[str, str]:
        """Return the last error of each key whose last reconcile has failed."""
        return {
            f"{one.name} {key}": run.text for one in self._controllers() for key, run in one.journal.failing.items()
        }

    def _controllers(self) -> Collection[Controller]:
        return () if self._manager is None else self._manager.controllers.values()


def in_context(actor: str) -> Context:
    """Return a context in which tasks write as somebody."""
    context = copy_context()
    context.run(ACTOR.set, actor)
    return context
