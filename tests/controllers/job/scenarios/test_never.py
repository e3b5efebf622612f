"""Pods that fail and are replaced, with restartPolicy Never: the scenarios of job-controller §37.3."""

from itertools import pairwise

import pytest

from kcr.api.core import Pod
from tests.kit.scenario import World, flow


def gap(before: Pod, after: Pod) -> float:
    """Return how many seconds after a pod's end the next one was made."""
    end = before.status.container_statuses[0].state.terminated
    assert end is not None
    assert end.finished_at is not None
    assert after.metadata.creation_timestamp is not None
    return (after.metadata.creation_timestamp - end.finished_at).total_seconds()


@flow()
async def test_replacement_waits_twice_as_long_each_time(world: World) -> None:
    # Rows 27 and 28.
    await world.create()
    for failed in range(3):
        await world.until(f"A1 F{failed}", tracked=1)
        await world.clock.advance(3)
        await world.fail(*world.active())
    await world.until("A1 F3", there=4, tracked=1)
    if world.undisturbed:
        pods = world.pods_of()
        waits = [gap(before, after) for before, after in pairwise(pods)]
        assert all(delay <= wait < delay + 2 for wait, delay in zip(waits, (10, 20, 40), strict=True)), waits


@flow()
async def test_success_ends_the_waiting(world: World) -> None:
    # Row 29.
    await world.create(completions=2, parallelism=1)
    for failed in range(3):
        await world.until(f"A1 F{failed}")
        await world.fail(*world.active())
    await world.until("A1 F3")
    await world.clock.advance(2)
    await world.succeed(*world.active())
    await world.until("A1 S1 F3", seconds=1.5 if world.undisturbed else 60)


@flow()
async def test_no_failure_is_forgiven_with_limit_zero(world: World) -> None:
    # Row 31.
    await world.create(backoffLimit=0)
    await world.until("A1")
    await world.fail(*world.active())
    await world.ends("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    await world.until("F1", made=1, there=1, tracked=0)
    if world.undisturbed:
        assert ("BackoffLimitExceeded", "Job has reached the specified backoff limit") in await world.events()


@pytest.mark.parametrize("limit", [1, 3])
@flow()
async def test_job_fails_when_one_pod_more_has_failed(world: World, limit: int) -> None:
    # Rows 32 and 33.
    await fail_until_it_is_too_much(world, limit)


@flow()
async def test_job_fails_at_the_seventh_failure_unless_told_otherwise(world: World) -> None:
    # Row 34.
    await fail_until_it_is_too_much(world, 6)


async def fail_until_it_is_too_much(world: World, limit: int) -> None:
    """Run a Job whose pods all fail; each ends by itself, is kept, and counts."""
    await world.create(backoffLimit=limit)
    for failed in range(limit + 1):
        await world.until(f"A1 F{failed}")
        await world.fail(*world.active())
    await world.ends("Failed", "BackoffLimitExceeded")
    await world.until(f"F{limit + 1}", made=limit + 1, there=limit + 1, ended=limit + 1, tracked=0)


@pytest.mark.parametrize("last", ["gone", "Failed", "Succeeded"])
@flow()
async def test_failed_waits_for_the_last_pod(world: World, last: str) -> None:
    # Row 35.
    await world.create(parallelism=2, completions=2, backoffLimit=0, held=True)
    await world.until("A2")
    first, second = world.active()
    await world.fail(first)
    await world.interim("FailureTarget", "BackoffLimitExceeded")
    await world.until("T1 F2")
    await world.stays("T1 F2")
    await (world.release([second]) if last == "gone" else world.end(second, last, 1))
    job = await world.ends("Failed", "BackoffLimitExceeded")
    assert job.status.completion_time is None
    await world.until("F2", made=2, tracked=0)


@flow()
async def test_failure_among_successes_is_found_after_a_restart(world: World) -> None:
    # Row 37.
    await world.create(parallelism=10, completions=10, backoffLimit=0)
    await world.until("A10")
    await world.crash()
    await world.bind(*world.active())
    first, *others = world.active()
    await world.fail(first)
    await world.succeed(*others)
    await world.start()
    await world.ends("Failed", "BackoffLimitExceeded")
    await world.until("S9 F1", made=10, tracked=0)


@flow()
async def test_ready_pod_stays_active_during_the_backoff(world: World) -> None:
    # Row 38: upstream reports A0, which the server refuses.
    await world.create(parallelism=2, completions=2)
    await world.until("A2")
    ready, failing = world.active()
    await world.ready(ready)
    await world.until("A2 R1")
    await world.fail(failing)
    if world.undisturbed:
        await world.until("A1 R1 F1", seconds=5)
    await world.until("A2 R1 F1")


@flow(collects=True)
async def test_namesake_does_not_wait_for_old_failures(world: World) -> None:
    # Row 39.
    await world.create()
    await world.until("A1")
    await world.fail(*world.active())
    await world.wait(lambda: world.job().status.failed == 1)
    old = world.job().metadata.uid
    await world.delete()
    await world.create()
    await world.until("A1", seconds=1 if world.undisturbed else 60)
    assert world.job().metadata.uid != old


@flow(soak=True)
async def test_failure_at_the_first_moment_leaves_no_pod_held(world: World) -> None:
    # Row 36.
    await world.create(completionMode="Indexed", parallelism=100, completions=100, backoffLimit=0)
    await world.wait(lambda: bool(world.pods.all))
    await world.fail(world.active()[0])
    await world.ends("Failed", "BackoffLimitExceeded")
    assert world.numbers()["tracked"] == 0
    job = world.job()
    assert job.status.failed == len(world.pods.all)
