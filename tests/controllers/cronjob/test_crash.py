"""The controller may die after any write, and start again: no run is started twice, and the books are right."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple, TypeAlias

import pytest

from kcr.api.batch import CronJob, Job
from kcr.api.core import Event
from kcr.api.meta import Key
from kcr.client import Client
from kcr.cluster import EmbeddedCluster
from kcr.controllers.cronjob.jobs import COMPLETE, end_of
from kcr.errors import ConflictError, NotFoundError
from kcr.informer import Handler, Informer
from kcr.testing import CrashingTransport, VirtualClock, eventually
from kcr.testing.answers import LOSSES, Loss
from kcr.testing.loop import VirtualLoop
from tests.kit.cronjob_harness import CREATED, change, complete, create, cron_controller, make_job, manifest, read
from tests.kit.harness import LateWatches

Act: TypeAlias = Callable[[Client], Awaitable[None]]


class Flow(NamedTuple):
    """A CronJob, and what is done to it from 09:59:10 on.

    Attributes:
        runs: The minutes after ten whose Jobs there are when nothing goes wrong.
        seconds: How long each of its Jobs runs.
        spec: Fields of its spec by their names on the wire.
        schedule: When it is due.
        most: How many Jobs may be at work at a time; None for any number.
        end: How its Jobs end.
        acts: What people do, by the second at which they do it.
        warnings: Reasons of the warnings that are in order.
    """

    runs: tuple[int, ...] = (0, 1, 2)
    seconds: int = 20
    spec: Mapping[str, Any] = {}
    schedule: str = "*/1 * * * *"
    most: int | None = None
    end: str = "Complete"
    acts: Mapping[int, Act] = {}
    warnings: frozenset[str] = frozenset()


def edit(**spec: Any) -> Act:
    async def act(client: Client) -> None:
        await change(client, **spec)

    return act


async def lose_first(client: Client) -> None:
    # After an outage it may never have been there.
    with contextlib.suppress(NotFoundError):
        await client.delete(Job, Key("default", "hello-29671800"), propagation="Background")


async def start_by_hand(client: Client) -> None:
    await make_job(client, await read(client), BY_HAND)


# Rows 1, 18 to 22, 27, 31, 36, 48 to 50 and 60 of cronjob-controller §19, as people would live through them.
FLOWS = {
    "allow": Flow(),
    "overlap": Flow(seconds=95),
    "forbid": Flow(seconds=75, spec={"concurrencyPolicy": "Forbid"}, most=1),
    "replace": Flow(seconds=95, spec={"concurrencyPolicy": "Replace"}, most=1),
    "nothing-kept": Flow(spec={"successfulJobsHistoryLimit": 0}),
    "failures": Flow(end="Failed", spec={"failedJobsHistoryLimit": 1}),
    "suspended-meanwhile": Flow((0, 2), acts={90: edit(suspend=True), 200: edit(suspend=False)}),
    "rescheduled": Flow((0, 2), acts={80: edit(schedule="*/2 * * * *")}),
    "twice-a-minute": Flow((-1, 0, 1, 2), schedule="@every 30s"),
    "lost-job": Flow(seconds=95, acts={65: lose_first}),
    "by-hand": Flow(
        seconds=75, spec={"concurrencyPolicy": "Forbid"}, most=1, acts={60: start_by_hand},
        warnings=frozenset({"UnexpectedJob"}),
    ),
}  # fmt: skip
# From 09:59:10 to 10:02:46, so that there is time to end before the next minute.
SECONDS = 216
# Those whose writes are not all the same as in others.
DIFFERENT = sorted(set(FLOWS) - {"overlap", "rescheduled"})
BY_HAND = "by-hand"
LATE = {"jobs": 2.0, "cronjobs": 2.0}


class Trouble(NamedTuple):
    """What goes wrong: the number of a write, for how long nobody runs then, and how many seconds watches lag.

    Instead of a reply that is lost, `loss` comes.
    A rival is a second controller that runs all the time.
    """

    crash_after: int | None = None
    outage: float = 0.0
    lost_reply: int | None = None
    loss: Loss = "silence"
    late: Mapping[str, float] = {}
    rival: bool = False


NO_TROUBLE = Trouble()


class Witness(Handler[Job]):
    """Sees every Job there ever was."""

    def __init__(self) -> None:
        self.made: Counter[str] = Counter()
        self.at_work: set[str] = set()
        self.most = 0
        self.completed: datetime | None = None

    def on_add(self, obj: Job, initial: bool) -> None:
        self.made[obj.metadata.name] += 1
        self._see(obj)

    def on_update(self, old: Job, new: Job) -> None:
        self._see(new)

    def on_delete(self, obj: Job, final_state_unknown: bool) -> None:
        self.at_work.discard(obj.metadata.uid)

    def _see(self, job: Job) -> None:
        # What somebody makes by hand is nobody's run, and a success all the same.
        works = not end_of(job) and job.metadata.deletion_timestamp is None and job.metadata.name != BY_HAND
        (self.at_work.add if works else self.at_work.discard)(job.metadata.uid)
        self.most = max(self.most, len(self.at_work))
        if end_of(job) == COMPLETE:
            self.completed = job.status.completion_time


async def finish_jobs(client: Client, clock: VirtualClock, flow: Flow) -> None:
    """End each Job when it has run for long enough, as its pods and their controller would."""
    while not is_over(clock):
        await asyncio.sleep(5)
        now = clock.now()
        for job in await client.list(Job, "default"):
            created = job.metadata.creation_timestamp
            if created is not None and created + timedelta(seconds=flow.seconds) <= now and not end_of(job):
                # Somebody may be quicker to delete it.
                with contextlib.suppress(NotFoundError, ConflictError):
                    await complete(client, job.metadata.name, now.replace(microsecond=0), end=flow.end)


async def do(client: Client, acts: Mapping[int, Act]) -> None:
    passed = 0
    for second, act in acts.items():
        await asyncio.sleep(second - passed)
        passed = second
        await act(client)


@asynccontextmanager
async def people(cluster: EmbeddedCluster, clock: VirtualClock, flow: Flow) -> AsyncIterator[Witness]:
    """Everybody else: who finishes Jobs, who edits the CronJob, and who looks on."""
    informer, seen = Informer(cluster.client, Job, random=Random(9)), Witness()
    informer.add_handler(seen)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(informer.run()),
            group.create_task(finish_jobs(cluster.client, clock, flow)),
            group.create_task(do(cluster.client, flow.acts)),
        ]
        yield seen
        for task in tasks:
            task.cancel()


async def live_through(flow: Flow, trouble: Trouble = NO_TROUBLE) -> int:
    """Let five minutes pass in spite of the trouble, check what came of them, and return the number of writes."""
    clock = VirtualClock(CREATED)
    async with EmbeddedCluster(clock=clock, random=Random(0), runtime=None) as cluster:
        await create(cluster.client, manifest(schedule=flow.schedule, **flow.spec))
        async with people(cluster, clock, flow) as seen:
            late = LateWatches(cluster.transport, Random(3), trouble.late)
            transport = CrashingTransport(late)
            if trouble.lost_reply is not None:
                transport.lose_reply(trouble.lost_reply, trouble.loss)
            if trouble.crash_after is not None:
                transport.crash_after(trouble.crash_after)
                async with cron_controller(cluster, clock, transport=transport):
                    await clock.run_until(lambda: transport.crashed.is_set() or is_over(clock))
                await asyncio.sleep(trouble.outage)
            others = late if trouble.crash_after is not None else transport
            async with rival(cluster, clock, trouble), cron_controller(cluster, clock, transport=others, seed=2):
                await clock.run_until(lambda: is_over(clock))
                # Watches may be late.
                await eventually(lambda: is_settled(cluster.client, seen), seconds=8)
            check(await read(cluster.client), seen, flow, trouble)
        if trouble == NO_TROUBLE:
            assert await warnings_of(cluster.client) == flow.warnings
        if not trouble.rival:  # which may have seen a Job end that the other still sees run
            assert "UnexpectedJob" not in await warnings_of(cluster.client) - flow.warnings
    return transport.writes


@asynccontextmanager
async def rival(cluster: EmbeddedCluster, clock: VirtualClock, trouble: Trouble) -> AsyncIterator[None]:
    """A second controller, if there is to be one, whose watches lag in a way of their own."""
    async with contextlib.AsyncExitStack() as stack:
        if trouble.rival:
            late = LateWatches(cluster.transport, Random(4), trouble.late)
            await stack.enter_async_context(cron_controller(cluster, clock, transport=late, seed=3))
        yield


async def warnings_of(client: Client) -> set[str]:
    events = await client.list(Event, "default", fields="involvedObject.kind=CronJob")
    return {event.reason for event in events if event.type == "Warning"}


def is_over(clock: VirtualClock) -> bool:
    return clock.now() >= CREATED + timedelta(seconds=SECONDS)


async def is_settled(client: Client, seen: Witness) -> bool:
    """Whether the status says what there is."""
    status = (await read(client)).status
    listed = {listed.uid for listed in status.active}
    return listed == seen.at_work and status.last_successful_time == seen.completed


def check(cron: CronJob, seen: Witness, flow: Flow, trouble: Trouble) -> None:
    """No run was started twice, none too many, and the last one is on record."""
    expected = {f"hello-{29671800 + minute}" for minute in flow.runs}
    assert set(seen.made.values()) == {1}
    made = set(seen.made) - {BY_HAND}
    if trouble.outage == 0:
        assert made == expected
    assert flow.most is None or seen.most <= flow.most
    assert cron.status.last_schedule_time is not None
    assert f"hello-{int(cron.status.last_schedule_time.timestamp()) // 60}" == max(made)


def in_virtual_time(flow: str, trouble: Trouble = NO_TROUBLE) -> int:
    """Run on a loop of its own, so that each crash starts from the same beginning."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(live_through(FLOWS[flow], trouble))


@pytest.mark.parametrize("flow", FLOWS)
def test_flow_without_trouble_is_what_the_others_are_measured_by(flow: str) -> None:
    assert in_virtual_time(flow) >= 10


@pytest.mark.timeout(60)
@pytest.mark.parametrize("flow", DIFFERENT)
def test_crash_after_any_write_starts_the_same_runs(flow: str) -> None:
    for write in range(1, in_virtual_time(flow) + 1):
        in_virtual_time(flow, Trouble(crash_after=write))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("flow", DIFFERENT)
def test_lost_reply_of_any_write_starts_the_same_runs(flow: str) -> None:
    for write in range(1, in_virtual_time(flow) + 1):
        in_virtual_time(flow, Trouble(lost_reply=write, loss=LOSSES[write % len(LOSSES)]))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("flow", ["forbid", "replace", "nothing-kept"])
def test_outage_after_any_write_starts_no_run_twice(flow: str) -> None:
    for write in range(1, in_virtual_time(flow) + 1):
        in_virtual_time(flow, Trouble(crash_after=write, outage=70))


@pytest.mark.parametrize("flow", FLOWS)
def test_late_watches_start_the_same_runs(flow: str) -> None:
    in_virtual_time(flow, Trouble(late=LATE))


@pytest.mark.parametrize("late", [{}, LATE], ids=["watches-in-time", "late-watches"])
@pytest.mark.parametrize("flow", DIFFERENT)
def test_two_controllers_by_mistake_start_the_same_runs(flow: str, late: Mapping[str, float]) -> None:
    in_virtual_time(flow, Trouble(late=late, rival=True))


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("outage", [0.0, 1.0, 30.0, 70.0, 130.0])
# A Job that goes before anybody has noted its run leaves nothing to tell of it.
@pytest.mark.parametrize("flow", sorted(set(FLOWS) - {"lost-job"}))
def test_crash_under_late_watches_starts_no_run_twice(flow: str, outage: float) -> None:
    for write in range(1, in_virtual_time(flow, Trouble(late=LATE)) + 1):
        in_virtual_time(flow, Trouble(crash_after=write, outage=outage, late=LATE))


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("flow", FLOWS)
def test_lost_reply_under_late_watches_starts_the_same_runs(flow: str, loss: Loss) -> None:
    for write in range(1, in_virtual_time(flow, Trouble(late=LATE)) + 1):
        in_virtual_time(flow, Trouble(lost_reply=write, loss=loss, late=LATE))
