"""Five minutes in the life of a CronJob: its users, its Jobs, and a fault at one of the writes of its controller."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime, timedelta
from functools import cache, partial
from random import Random
from typing import Any, NamedTuple, TypeAlias

from kcr.api.batch import COMPLETE, CronJob, Job, finished_type
from kcr.api.core import Event
from kcr.api.meta import Key
from kcr.client import Client, Transport
from kcr.errors import ConflictError, NotFoundError
from kcr.informer import Handler, Informer
from kcr.testing import VirtualClock, eventually
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.crash import (
    NO_FAULT,
    Life,
    WriteFault,
    surviving,
)
from tests.kit.cronjob_harness import CREATED, change, complete, create, cronjob_controller, make_job, manifest, read
from tests.kit.transports import late_watches

Act: TypeAlias = Callable[[Client], Awaitable[None]]


class Story(NamedTuple):
    """A CronJob, and what is done to it from 09:59:10 on.

    Attributes:
        runs: The minutes after ten whose Jobs there are when nothing goes wrong.
        seconds: How long each of its Jobs runs.
        spec: Fields of its spec by their names on the wire.
        schedule: When it is due.
        most: How many Jobs may be at work at a time; None for any number.
        end: How its Jobs end.
        acts: What users do, by the second at which they do it.
        warnings: Reasons of the warnings that are in order.
        annotations: Those of the CronJob.
    """

    runs: tuple[int, ...] = (0, 1, 2)
    seconds: int = 20
    spec: Mapping[str, Any] = {}
    schedule: str = "*/1 * * * *"
    most: int | None = None
    end: str = "Complete"
    acts: Mapping[int, Act] = {}
    warnings: frozenset[str] = frozenset()
    annotations: Mapping[str, str] = {}


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


# Rows 1, 18 to 22, 27, 31, 36, 48 to 50 and 60 of cronjob-controller §19, as users would meet them.
STORIES = {
    "allow": Story(),
    "overlap": Story(seconds=95),
    "forbid": Story(seconds=75, spec={"concurrencyPolicy": "Forbid"}, most=1),
    "replace": Story(seconds=95, spec={"concurrencyPolicy": "Replace"}, most=1),
    "nothing-kept": Story(spec={"successfulJobsHistoryLimit": 0}),
    "failures": Story(end="Failed", spec={"failedJobsHistoryLimit": 1}),
    "suspended-meanwhile": Story((0, 2), acts={90: edit(suspend=True), 200: edit(suspend=False)}),
    "rescheduled": Story((0, 2), acts={80: edit(schedule="*/2 * * * *")}),
    "spread": Story(spec={"concurrencyPolicy": "Forbid"}, most=1, annotations={"kcr.dev/spread": "20s"}),
    "twice-a-minute": Story((-1, 0, 1, 2), schedule="@every 30s"),
    "lost-job": Story(seconds=95, acts={65: lose_first}),
    "by-hand": Story(
        seconds=75, spec={"concurrencyPolicy": "Forbid"}, most=1, acts={60: start_by_hand},
        warnings=frozenset({"UnexpectedJob"}),
    ),
}  # fmt: skip
# From 09:59:10 to 10:02:46, so that there is time to end before the next minute.
SECONDS = 216
# Those whose writes are not all the same as in others.
DIFFERENT = sorted(set(STORIES) - {"overlap", "rescheduled"})
BY_HAND = "by-hand"
LATE = {"jobs": 2.0, "cronjobs": 2.0}


class RunObserver(Handler[Job]):
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
        # A Job made by hand belongs to no run, and may succeed all the same.
        works = not finished_type(job) and job.metadata.deletion_timestamp is None and job.metadata.name != BY_HAND
        (self.at_work.add if works else self.at_work.discard)(job.metadata.uid)
        self.most = max(self.most, len(self.at_work))
        if finished_type(job) == COMPLETE:
            self.completed = job.status.completion_time


async def finish_jobs(client: Client, clock: VirtualClock, story: Story) -> None:
    """End each Job when it has run for long enough, as its pods and their controller would."""
    while not is_over(clock):
        await asyncio.sleep(5)
        now = clock.now()
        for job in await client.list(Job, "default"):
            created = job.metadata.creation_timestamp
            if created is not None and created + timedelta(seconds=story.seconds) <= now and not finished_type(job):
                # Another client may delete it first.
                with contextlib.suppress(NotFoundError, ConflictError):
                    await complete(client, job.metadata.name, now.replace(microsecond=0), end=story.end)


async def do(client: Client, acts: Mapping[int, Act]) -> None:
    passed = 0
    for second, act in acts.items():
        await asyncio.sleep(second - passed)
        passed = second
        await act(client)


@asynccontextmanager
async def users_of(cluster: EmbeddedCluster, clock: VirtualClock, story: Story) -> AsyncIterator[RunObserver]:
    """The other clients: one finishes Jobs, one edits the CronJob, one observes."""
    informer, seen = Informer(cluster.client, Job, random=Random(9)), RunObserver()
    informer.add_handler(seen)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(informer.run()),
            group.create_task(finish_jobs(cluster.client, clock, story)),
            group.create_task(do(cluster.client, story.acts)),
        ]
        yield seen
        for task in tasks:
            task.cancel()


async def live(fault: WriteFault, story: Story) -> int:
    """Let five minutes pass in spite of the fault, check what came of them, and return the number of writes."""
    clock = VirtualClock(CREATED)
    cluster = EmbeddedCluster(clock=clock, random=Random(0), runtime=None, gc=False)

    def controller(transport: Transport, seed: int) -> AbstractAsyncContextManager[object]:
        return cronjob_controller(cluster, clock, transport=transport, seed=seed)

    async with cluster:
        cron = manifest(schedule=story.schedule, **story.spec)
        cron["metadata"]["annotations"] = dict(story.annotations)
        await create(cluster.client, cron)
        async with users_of(cluster, clock, story) as seen:
            async with (
                surviving(cluster.transport, fault, controller, lambda: is_over(clock)) as transport,
                concurrent_controller(cluster, clock, fault),
            ):
                await clock.run_until(lambda: is_over(clock))
                # Watches may be late.
                await eventually(lambda: is_settled(cluster.client, seen), seconds=8)
            check(await read(cluster.client), seen, story, fault)
        if fault == NO_FAULT:
            assert await warnings_of(cluster.client) == story.warnings
        if not fault.concurrent:  # which may have seen a Job end that the other still sees run
            assert "UnexpectedJob" not in await warnings_of(cluster.client) - story.warnings
    return transport.writes


@asynccontextmanager
async def concurrent_controller(
    cluster: EmbeddedCluster, clock: VirtualClock, fault: WriteFault
) -> AsyncIterator[None]:
    """A second controller, if there is to be one, whose watches lag in a way of their own."""
    async with contextlib.AsyncExitStack() as stack:
        if fault.concurrent:
            late = late_watches(cluster.transport, Random(4), fault.late)
            await stack.enter_async_context(cronjob_controller(cluster, clock, transport=late, seed=3))
        yield


async def warnings_of(client: Client) -> set[str]:
    events = await client.list(Event, "default", fields="involvedObject.kind=CronJob")
    return {event.reason for event in events if event.type == "Warning"}


def is_over(clock: VirtualClock) -> bool:
    return clock.now() >= CREATED + timedelta(seconds=SECONDS)


async def is_settled(client: Client, seen: RunObserver) -> bool:
    """Whether the status says what there is."""
    status = (await read(client)).status
    listed = {listed.uid for listed in status.active}
    return listed == seen.at_work and status.last_successful_time == seen.completed


def check(cron: CronJob, seen: RunObserver, story: Story, fault: WriteFault) -> None:
    """No run was started twice, none too many, and the last one is on record."""
    expected = {f"hello-{29671800 + minute}" for minute in story.runs}
    assert set(seen.made.values()) == {1}
    made = set(seen.made) - {BY_HAND}
    if fault.outage == 0:
        assert made == expected
    assert story.most is None or seen.most <= story.most
    assert cron.status.last_schedule_time is not None
    assert f"hello-{int(cron.status.last_schedule_time.timestamp()) // 60}" == max(made)


@cache
def life(name: str) -> Life:
    return partial(live, story=STORIES[name])
