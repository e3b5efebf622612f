"""While many Jobs wait for a worker, the status that says only that a Job has started waits for its first count."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from random import Random

import pytest

from kcr.api.batch import Job
from kcr.api.meta import Key
from kcr.client import Request, Response, Transport
from kcr.testing import VirtualClock, eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from kcr_devcluster.testing.losses import Loss
from tests.kit.crash import (
    EVERY_LOSS,
    MOST_WRITES,
    WriteFault,
    crash_after_writes,
    in_virtual_time,
    lose_replies,
    surviving,
)
from tests.kit.harness import conditions, create, has_ended, job_controller, manifest, nothing_left_behind, pods_of

JOBS = 18
NAMES = [f"job-{number}" for number in range(JOBS)]


class BusyServer:
    """A transport to a server that takes 20 ms for each write, and counts those of each Job's status."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.status_writes: Counter[str] = Counter()

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        if request.method != "GET":
            await asyncio.sleep(0.02)
        path = request.target.partition("?")[0]
        if path.endswith("/status"):
            self.status_writes[path.split("/")[-2]] += 1
        async with self.inner.send(request) as response:
            yield response


def cluster(clock: VirtualClock, seconds: float) -> EmbeddedCluster:
    """A cluster whose pods succeed after so long."""

    def run(*_: object) -> RunResult:
        return RunResult(exit_code=0, run_for=seconds)

    return EmbeddedCluster(clock=clock, random=Random(0), runtime="simulated", gc=False, on_run=run)


async def jobs_of(cluster: EmbeddedCluster) -> tuple[Job, ...]:
    return await cluster.client.list(Job, "default")


async def status_writes(jobs: int) -> Counter[str]:
    clock = VirtualClock()
    async with cluster(clock, 0.0) as running:
        server = BusyServer(running.transport)
        async with job_controller(running, clock, transport=server):
            for name in NAMES[:jobs]:
                await create(running.client, manifest(name))
            await clock.advance(10)
        assert all(has_ended(job) and job.status.start_time is not None for job in await jobs_of(running))
    return server.status_writes


def test_jobs_that_end_soon_save_a_status_write_under_load() -> None:
    assert Counter(in_virtual_time(status_writes(JOBS)).values())[2] > JOBS // 3


def test_start_of_a_few_jobs_is_written_at_once() -> None:
    assert set(in_virtual_time(status_writes(3)).values()) == {3}


async def delays_of_starts() -> dict[str, float]:
    """Return how many seconds after its pod each Job shows that it has started."""
    clock = VirtualClock()
    now = asyncio.get_running_loop().time
    created, shown = dict[str, float](), dict[str, float]()
    async with cluster(clock, 30.0) as running, job_controller(running, clock, transport=BusyServer(running.transport)):
        for name in NAMES:
            await create(running.client, manifest(name))
        while len(shown) < JOBS:
            await clock.advance(0.01)
            for job in await jobs_of(running):
                name = job.metadata.name
                if name not in created and (pods := await pods_of(running.client, name)):
                    created[name] = now()
                    assert len(pods) == 1
                if name not in shown and job.status.start_time is not None:
                    shown[name] = now()
                    assert job.status.active == 1
    return {name: moment - created[name] for name, moment in shown.items()}


def test_start_is_shown_within_a_second_though_the_pods_run_on() -> None:
    delays = in_virtual_time(delays_of_starts()).values()
    assert max(delays) < 1.0
    assert sum(delay > 0.3 for delay in delays) > JOBS // 3, "none was put off"


async def live(fault: WriteFault) -> int:
    """Run all Jobs to their ends in spite of the fault, check them, and return the number of writes."""
    clock = VirtualClock()

    def controller(transport: Transport, seed: int) -> AbstractAsyncContextManager[object]:
        return job_controller(running, clock, transport=BusyServer(transport), seed=seed)

    async def is_over() -> bool:
        return all(map(has_ended, await jobs_of(running)))

    async with cluster(clock, 0.3) as running:
        for name in NAMES:
            await create(running.client, manifest(name))
        async with surviving(running.transport, fault, controller, is_over) as transport:
            await eventually(is_over, seconds=60)
            await clock.advance(2)
        for job in await jobs_of(running):
            assert conditions(job)[-1] == ("Complete", "CompletionsReached")
            assert (job.status.succeeded, job.status.failed) == (1, 0)
            pods = await pods_of(running.client, job.metadata.name)
            assert len(pods) == 1
            assert nothing_left_behind(pods)
    return transport.writes


@pytest.mark.parametrize("most", MOST_WRITES)
def test_crash_after_any_write_under_load_loses_nothing(most: int | None) -> None:
    crash_after_writes(live, most)


@pytest.mark.parametrize("most", MOST_WRITES)
@pytest.mark.parametrize("loss", EVERY_LOSS)
def test_lost_reply_of_any_write_under_load_loses_nothing(loss: Loss | None, most: int | None) -> None:
    lose_replies(live, most, loss=loss)


async def start_after_a_pause() -> tuple[float, float]:
    """Suspend Jobs while their start is put off, resume one; return when that was, and its start."""
    clock = VirtualClock()
    async with cluster(clock, 30.0) as running, job_controller(running, clock, transport=BusyServer(running.transport)):
        for name in NAMES:
            await create(running.client, manifest(name))
        await clock.advance(0.3)
        waiting = [job.metadata.name for job in await jobs_of(running) if job.status.start_time is None]
        name = waiting[0]
        assert await pods_of(running.client, name)
        patch = partial(running.client.merge_patch, Job, Key("default", name))
        await patch({"spec": {"suspend": True}})
        await clock.advance(5)
        paused = await running.client.get(Job, Key("default", name))
        assert (paused.status.start_time, paused.status.active) == (None, 0)
        resumed = clock.now().timestamp()
        await patch({"spec": {"suspend": False}})
        await clock.advance(5)
        job = await running.client.get(Job, Key("default", name))
        assert job.status.start_time is not None
        return resumed, job.status.start_time.timestamp()


def test_job_that_was_suspended_meanwhile_starts_anew() -> None:
    resumed, started = in_virtual_time(start_after_a_pause())
    assert started >= int(resumed)
