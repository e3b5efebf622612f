"""The controller may die after any write, and start again: every pod is counted exactly once, none is too many."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.embedded import EmbeddedCluster
from kcr.embedded.node import Outcome
from kcr.testing import CrashingTransport, VirtualClock, VirtualLoop, eventually
from tests.harness import conditions, create, ended, job_controller, manifest, nothing_left_behind, pods_of

SPEC = {"parallelism": 10, "completions": 50, "backoffLimit": 100}


def some_fail(pod: object, container: str, attempt: int) -> Outcome:
    """Pods run for different times, and every seventh fails: its replacement must be the only one."""
    name = pod.metadata.name  # type: ignore[attr-defined]  # a pod as the node sees it
    dice = sum(name.encode())
    return Outcome(exit_code=1 if dice % 7 == 0 else 0, run_for=1.0 + dice % 5)


@asynccontextmanager
async def some_cluster(clock: VirtualClock) -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(clock=clock, random=Random(0), runtime="simulated", on_run=some_fail) as cluster:
        yield cluster


async def live_through(crash_after: int | None, *, lost_reply: int | None = None, **spec: int) -> int:
    """Run one Job to its end with a crash after the given write, check it, and return the number of writes."""
    clock = VirtualClock()
    async with some_cluster(clock) as cluster:
        transport = CrashingTransport(cluster.transport)
        await create(cluster.client, manifest(**{**SPEC, **spec}))
        if lost_reply is not None:
            transport.lose_reply(lost_reply)
        if crash_after is not None:
            transport.crash_after(crash_after)
            async with job_controller(cluster, clock, transport=transport):
                await wait_for_crash_or_end(transport, cluster)
        async with job_controller(cluster, clock, transport=transport if crash_after is None else None, seed=2):
            job = await eventually(lambda: ended(cluster.client), seconds=3600)
            await clock.advance(5)
            pods = await pods_of(cluster.client)
        check(job, pods)
    return transport.writes


async def wait_for_crash_or_end(transport: CrashingTransport, cluster: EmbeddedCluster) -> None:
    async def over() -> bool:
        return transport.crashed.is_set() or await ended(cluster.client) is not None

    await eventually(over, seconds=3600)


def check(job: Job, pods: tuple[Pod, ...]) -> None:
    succeeded = sum(pod.status.phase == "Succeeded" for pod in pods)
    failed = sum(pod.status.phase == "Failed" for pod in pods)
    assert conditions(job)[-1] == ("Complete", "CompletionsReached")
    assert (job.status.succeeded, job.status.failed) == (succeeded, failed)
    assert succeeded == job.spec.completions
    assert len(pods) == succeeded + failed
    assert nothing_left_behind(pods)


def in_virtual_time(coroutine_function: object, *arguments: object, **options: object) -> int:
    """Run on a loop of its own, so that each crash starts from the same beginning."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine_function(*arguments, **options))  # type: ignore[operator,no-any-return]


def test_run_without_a_crash_is_what_the_others_are_measured_by() -> None:
    assert in_virtual_time(live_through, None) > 100


@pytest.mark.timeout(120)
def test_crash_after_any_write_of_a_small_job_loses_nothing() -> None:
    writes = in_virtual_time(live_through, None, parallelism=3, completions=6)
    for write in range(1, writes + 1):
        in_virtual_time(live_through, write, parallelism=3, completions=6)


@pytest.mark.timeout(120)
def test_lost_reply_of_any_write_of_a_small_job_loses_nothing() -> None:
    writes = in_virtual_time(live_through, None, parallelism=3, completions=6)
    for write in range(1, writes + 1):
        in_virtual_time(live_through, None, lost_reply=write, parallelism=3, completions=6)


@pytest.mark.timeout(120)
def test_crash_in_the_middle_of_fifty_pods_loses_nothing() -> None:
    writes = in_virtual_time(live_through, None)
    for write in range(1, writes + 1, 16):
        in_virtual_time(live_through, write)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_crash_after_every_write_of_fifty_pods_loses_nothing() -> None:
    writes = in_virtual_time(live_through, None)
    for write in range(1, writes + 1):
        in_virtual_time(live_through, write)
