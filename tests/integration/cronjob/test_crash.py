"""The controller may die after any write, and start again: no run is started twice, and the books are right."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple

import pytest

from controllers.cronjob.jobs import COMPLETE, end_of
from kcr.api.batch import CronJob, Job
from kcr.client import Client
from kcr.embedded import EmbeddedCluster
from kcr.errors import ConflictError, NotFoundError
from kcr.informer import Handler, Informer
from kcr.testing import CrashingTransport, VirtualClock, VirtualLoop
from tests.cron_harness import CREATED, change, complete, create, cron_controller, events_of, manifest, read
from tests.harness import LateWatches


class Flow(NamedTuple):
    """A CronJob that is due every minute, from a minute after ten on.

    Attributes:
        spec: Fields of its spec by their names on the wire.
        seconds: How long each of its Jobs runs.
        runs: The minutes whose Jobs are there when nothing goes wrong.
        most: How many Jobs may be at work at a time; None for any number.
        edits: Changes of its spec, by the second at which they are made.
    """

    spec: Mapping[str, Any]
    seconds: int
    runs: tuple[int, ...]
    most: int | None = None
    edits: Mapping[int, Mapping[str, Any]] = {}


# From 09:59:10 to 10:02:50.
SECONDS = 220
FLOWS = {
    "allow": Flow({}, 20, (0, 1, 2)),
    "overlap": Flow({}, 95, (0, 1, 2)),
    "forbid": Flow({"concurrencyPolicy": "Forbid"}, 75, (0, 1, 2), most=1),
    "replace": Flow({"concurrencyPolicy": "Replace"}, 95, (0, 1, 2), most=1),
    "nothing-kept": Flow({"successfulJobsHistoryLimit": 0}, 20, (0, 1, 2)),
    "suspended-meanwhile": Flow({}, 20, (0, 2), edits={90: {"suspend": True}, 200: {"suspend": False}}),
}
LATE = {"jobs": 2.0, "cronjobs": 2.0}


class Trouble(NamedTuple):
    """What goes wrong: the number of a write, for how long nobody runs then, and how many seconds watches lag."""

    crash_after: int | None = None
    outage: float = 0.0
    lost_reply: int | None = None
    late: Mapping[str, float] = {}


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

    def on_delete(self, obj: Job) -> None:
        self.at_work.discard(obj.metadata.uid)

    def _see(self, job: Job) -> None:
        works = not end_of(job) and job.metadata.deletion_timestamp is None
        (self.at_work.add if works else self.at_work.discard)(job.metadata.uid)
        self.most = max(self.most, len(self.at_work))
        if end_of(job) == COMPLETE:
            self.completed = job.status.completion_time


async def finish_jobs(client: Client, clock: VirtualClock, seconds: int) -> None:
    """Complete each Job when it has run for long enough, as its pods and their controller would."""
    while True:
        await asyncio.sleep(5)
        now = clock.now()
        for job in await client.list(Job, "default"):
            created = job.metadata.creation_timestamp
            if created is not None and created + timedelta(seconds=seconds) <= now and not end_of(job):
                # Somebody may be quicker to delete it.
                with contextlib.suppress(NotFoundError, ConflictError):
                    await complete(client, job.metadata.name, now.replace(microsecond=0))


async def edit(client: Client, edits: Mapping[int, Mapping[str, Any]]) -> None:
    passed = 0
    for second, fields in edits.items():
        await asyncio.sleep(second - passed)
        passed = second
        await change(client, **fields)


@asynccontextmanager
async def people(cluster: EmbeddedCluster, clock: VirtualClock, flow: Flow) -> AsyncIterator[Witness]:
    """Everybody else: who finishes Jobs, who edits the CronJob, and who looks on."""
    informer, seen = Informer(cluster.client, Job, random=Random(9)), Witness()
    informer.add_handler(seen)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(informer.run()),
            group.create_task(finish_jobs(cluster.client, clock, flow.seconds)),
            group.create_task(edit(cluster.client, flow.edits)),
        ]
        yield seen
        for task in tasks:
            task.cancel()


async def live_through(flow: Flow, trouble: Trouble = NO_TROUBLE) -> int:
    """Let five minutes pass in spite of the trouble, check what came of them, and return the number of writes."""
    clock = VirtualClock(CREATED)
    async with EmbeddedCluster(clock=clock, random=Random(0), runtime=None) as cluster:
        await create(cluster.client, manifest(**flow.spec))
        async with people(cluster, clock, flow) as seen:
            late = LateWatches(cluster.transport, Random(3), trouble.late)
            transport = CrashingTransport(late)
            if trouble.lost_reply is not None:
                transport.lose_reply(trouble.lost_reply)
            if trouble.crash_after is not None:
                transport.crash_after(trouble.crash_after)
                async with cron_controller(cluster, clock, transport=transport):
                    await clock.run_until(lambda: transport.crashed.is_set() or is_over(clock))
                await asyncio.sleep(trouble.outage)
            others = late if trouble.crash_after is not None else transport
            async with cron_controller(cluster, clock, transport=others, seed=2):
                await clock.run_until(lambda: is_over(clock))
                # For watches that are late.
                await clock.advance(8)
            check(await read(cluster.client), seen, flow, trouble)
        reasons = {reason for reason, _ in await events_of(cluster.client)}
        assert "UnexpectedJob" not in reasons
    return transport.writes


def is_over(clock: VirtualClock) -> bool:
    return clock.now() >= CREATED + timedelta(seconds=SECONDS)


def check(cron: CronJob, seen: Witness, flow: Flow, trouble: Trouble) -> None:
    """No run was started twice, none too many, and the status says what there is."""
    expected = {f"hello-{29671800 + minute}" for minute in flow.runs}
    assert set(seen.made.values()) == {1}
    if trouble.outage == 0:
        assert set(seen.made) == expected
    assert flow.most is None or seen.most <= flow.most
    assert {listed.uid for listed in cron.status.active} == seen.at_work
    assert cron.status.last_schedule_time is not None
    assert f"hello-{int(cron.status.last_schedule_time.timestamp()) // 60}" == max(seen.made)
    assert cron.status.last_successful_time == seen.completed


def in_virtual_time(flow: str, trouble: Trouble = NO_TROUBLE) -> int:
    """Run on a loop of its own, so that each crash starts from the same beginning."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(live_through(FLOWS[flow], trouble))


@pytest.mark.parametrize("flow", FLOWS)
def test_flow_without_trouble_is_what_the_others_are_measured_by(flow: str) -> None:
    assert in_virtual_time(flow) >= 10


@pytest.mark.timeout(60)
@pytest.mark.parametrize("flow", FLOWS)
def test_crash_after_any_write_starts_the_same_runs(flow: str) -> None:
    for write in range(1, in_virtual_time(flow) + 1):
        in_virtual_time(flow, Trouble(crash_after=write))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("flow", FLOWS)
def test_lost_reply_of_any_write_starts_the_same_runs(flow: str) -> None:
    for write in range(1, in_virtual_time(flow) + 1):
        in_virtual_time(flow, Trouble(lost_reply=write))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("flow", ["forbid", "replace", "nothing-kept"])
def test_outage_after_any_write_starts_no_run_twice(flow: str) -> None:
    for write in range(1, in_virtual_time(flow) + 1):
        in_virtual_time(flow, Trouble(crash_after=write, outage=70))


@pytest.mark.parametrize("flow", FLOWS)
def test_late_watches_start_the_same_runs(flow: str) -> None:
    in_virtual_time(flow, Trouble(late=LATE))


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("outage", [0.0, 1.0, 30.0, 70.0, 130.0])
@pytest.mark.parametrize("flow", FLOWS)
def test_crash_under_late_watches_starts_no_run_twice(flow: str, outage: float) -> None:
    for write in range(1, in_virtual_time(flow, Trouble(late=LATE)) + 1):
        in_virtual_time(flow, Trouble(crash_after=write, outage=outage, late=LATE))


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("flow", FLOWS)
def test_lost_reply_under_late_watches_starts_the_same_runs(flow: str) -> None:
    for write in range(1, in_virtual_time(flow, Trouble(late=LATE)) + 1):
        in_virtual_time(flow, Trouble(lost_reply=write, late=LATE))
