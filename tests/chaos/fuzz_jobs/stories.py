"""Scenarios in virtual time on the embedded server, judged by the laws of tests/chaos/laws.

`python -m tests.chaos.fuzz_jobs FIRST LAST` runs the seeds from FIRST to below LAST until a law is broken.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from kcr.api.batch import Job
from kcr.api.core import Event
from kcr.api.pods import is_ready
from kcr.client import Transport
from kcr.errors import NotSyncedError
from kcr.testing import CrashingTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.loop import VirtualLoop
from tests.chaos.authors import AUTHOR, USER
from tests.chaos.fuzz_jobs.acts import World, lift, succeed_all
from tests.chaos.fuzz_jobs.refusals import REFUSALS
from tests.chaos.fuzz_jobs.scenarios import Scenario, scenario_of
from tests.chaos.fuzz_jobs.views import plain
from tests.chaos.job_runs import JOB_LAWS, PATIENCE, POD_LAWS, check_the_end
from tests.chaos.laws import counting
from tests.chaos.laws.history import History
from tests.chaos.laws.overdue import Obligations
from tests.chaos.network_faults import FaultRates, faulty_network
from tests.chaos.random_jobs import random_options
from tests.chaos.tally import checked
from tests.kit.harness import job_controller

Tell = Callable[[str], None]
# How long a controller that has just started may take for what it finds, in seconds.
_STARTED_SECONDS = 15.0
# How long a refused request may take to be repeated once it is not refused any more: each retry waits twice as long as
# the one before, up to a minute.
RETRY_SECONDS = 75.0


class CrashingController:
    """The Job controller of a story, which dies and comes back.

    Attributes:
        lives: How often it has started.
        on_start: Called when it starts.
    """

    def __init__(
        self, cluster: EmbeddedCluster, clock: VirtualClock, network: Transport, seed: int, **options: Any
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._network = network
        self._seed = seed
        self._options = options
        self._wanted = asyncio.Event()
        self._wire = CrashingTransport(network)
        self.lives = 0
        self.on_start: Callable[[], object] = lambda: None

    async def run(self) -> None:
        """Run the controller until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._wanted.wait()
                self._wire = CrashingTransport(self._network)
                self.lives += 1
                self.on_start()
                # In a task of its own: what a dead process still does by itself delays no other task.
                group.create_task(self._live(self._wire))
                await self._wire.crashed.wait()

    async def _live(self, wire: CrashingTransport) -> None:
        seed = self._seed + self.lives
        try:
            async with job_controller(self._cluster, self._clock, transport=wire, seed=seed, **self._options):
                await wire.crashed.wait()
        except* NotSyncedError:
            # One that dies while it starts waits for its first lists in vain.
            if not wire.crashed.is_set():
                raise

    async def restart(self) -> None:
        self._wire.crash_after(0)
        await self.come()

    async def come(self) -> None:
        """Start it, unless it lives."""
        self._wanted.set()
        await self._clock.settle()

    async def leave(self) -> None:
        self._wanted.clear()
        self._wire.crash_after(0)
        await self._clock.settle()

    async def crash_soon(self, writes: int) -> None:
        self._wire.crash_after(writes)


class Story:
    """One scenario in virtual time."""

    def __init__(self, scenario: Scenario, on_wrong: Tell = lambda _: None, tell: Tell = lambda _: None) -> None:
        self._scenario = scenario
        self._on_wrong = on_wrong
        self._tell = tell
        self._clock = VirtualClock()
        self._options = random_options(Random(f"options {scenario.seed}"))

    async def live(self) -> list[str]:
        """Go through it, and return what was wrong."""
        seed = self._scenario.seed
        cap = counting.lists_stay_short(self._options["max_uncounted_pods"])
        collects = self._scenario.has("recreate")
        made = EmbeddedCluster(clock=self._clock, random=Random(seed), runtime=None, gc=collects)
        async with made as cluster:
            history = History(cluster, (*JOB_LAWS, cap), POD_LAWS)
            history.on_wrong = self._on_wrong
            network = faulty_network(
                cluster.transport, FaultRates(most=0), Random(seed), compact=cluster.storage.compact, late=False
            )
            async with network as transport, asyncio.TaskGroup() as group:
                controller = CrashingController(cluster, self._clock, transport, seed, **self._options)
                running = group.create_task(controller.run())
                await self._go_through(cluster, controller, history)
                await controller.leave()
                running.cancel()
        check_the_end(history, transport)
        return history.wrongs

    async def _go_through(self, cluster: EmbeddedCluster, controller: CrashingController, history: History) -> None:
        world = World(cluster.client, self._clock, self._scenario.job, controller)
        obligations = Obligations(history)
        loop = asyncio.get_running_loop()
        controller.on_start = lambda: _ask_from(obligations, loop.time() + _STARTED_SECONDS)
        world.on_refusal = lambda name, in_force: _excuse(obligations, self._impossible(name), in_force)
        AUTHOR.set(USER)
        await controller.come()
        self._tell(f"Job {self._scenario.job['spec']}")
        self._tell(f"options {self._options}")
        await world.create()
        for step in self._scenario.steps:
            await asyncio.sleep(step.gap)
            self._tell(_described(history, loop.time()))
            if step.act == "leave":
                obligations.counts_from = None
            done = await world.do(step.act, step.dice)
            self._tell(f"{step.act}: {done}")
        await asyncio.sleep(12.0)
        self._tell(_described(history, loop.time()))
        await self._end(world, controller, history)
        obligations.check()
        for wrong in await _repeats(world, controller.lives):
            history.note(f"refusals_share_an_event: {wrong}")

    def _impossible(self, refusal: str) -> tuple[str, ...]:
        """Return the obligations that cannot be met under a refusal.

        A pod whose labels a user has removed is released and loses its finalizer in one request; nothing is counted
        before all are released.
        """
        blocks = refusal == "untracks" and self._scenario.has("relabel")
        return ("",) if blocks else REFUSALS[refusal].excuses

    async def _end(self, world: World, controller: CrashingController, history: History) -> None:
        """Let the Job end: nothing is refused any more, and all pods succeed."""
        await lift(world)
        await controller.come()
        # Whatever was refused is repeated without another event.
        await asyncio.sleep(2 * RETRY_SECONDS)
        async with asyncio.TaskGroup() as group:
            kubelet = group.create_task(succeed_all(world))
            await history.see_the_end(self._clock, PATIENCE)
            kubelet.cancel()
        self._tell(_described(history, asyncio.get_running_loop().time()))


async def _repeats(world: World, lives: int) -> list[str]:
    """Return the refusals of pods that have several events although the controller remembers the first."""
    checked("refusals_share_an_event")
    events = await world.client.list(Event, world.namespace, fields="involvedObject.kind=Job,reason=FailedCreate")
    told = Counter((event.involved_object.uid, plain(world, event.message)) for event in events)
    return [f"{count} events, {lives} lives: {message}" for (_, message), count in told.items() if count > lives]


def _ask_from(obligations: Obligations, moment: float) -> None:
    obligations.update()
    obligations.counts_from = moment


def _excuse(obligations: Obligations, impossible: tuple[str, ...], in_force: bool) -> None:
    until = math.inf if in_force else asyncio.get_running_loop().time() + RETRY_SECONDS
    for words in impossible:
        obligations.excuses[words] = until


def _described(history: History, moment: float) -> str:
    trail = history.current
    if trail is None or not trail.here:
        return f"{moment:8.1f} s  no Job"
    return f"{moment:8.1f} s  {summary(trail.job)}; pods: " + (
        ", ".join(_pod_summary(pod) for pod in history.pods.values() if pod.here) or "none"
    )


def summary(job: Job) -> str:
    """Return the status of a Job in a line."""
    status = job.status
    numbers = f"active {status.active} ready {status.ready} terminating {status.terminating}"
    ends = f"succeeded {status.succeeded} failed {status.failed}"
    indexes = f" completed [{status.completed_indexes}] failed [{status.failed_indexes or ''}]"
    listed = status.uncounted_terminated_pods
    open_ = f" uncounted {len(listed.succeeded)}+{len(listed.failed)}" if listed else ""
    held = ", ".join(f"{one.type}={one.status} {one.reason}" for one in status.conditions)
    return f"{numbers} {ends}{indexes if job.spec.completion_mode == 'Indexed' else ''}{open_} [{held}]"


def _pod_summary(trail: Any) -> str:
    pod = trail.pod
    marks = [
        pod.status.phase or "-",
        *(["ready"] if is_ready(pod) else []), *(["terminating"] if trail.is_terminating else []),
        *(["tracked"] if trail.is_tracked else []), *([] if trail.owner else ["no owner"]),
    ]  # fmt: skip
    return f"{pod.metadata.name} {' '.join(marks)}"


def wrongs_of(seed: int, on_wrong: Tell = lambda _: None, tell: Tell = lambda _: None) -> list[str]:
    """Run one seed in virtual time, and return what was wrong; `on_wrong` is called at once with each."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(Story(scenario_of(seed), on_wrong, tell).live())
