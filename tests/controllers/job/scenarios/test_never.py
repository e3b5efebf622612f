"""Pods that fail and are replaced, with restartPolicy Never: the scenarios of job-controller §37.3."""

from itertools import pairwise

import pytest

from kcr.api.core import Pod
from kcr.controllers.job.decisions.pods import is_tracked
from tests.kit.scenario import Simulation, scenario


def gap(before: Pod, after: Pod) -> float:
    """Return how many seconds after a pod's end the next one was made."""
    end = before.status.container_statuses[0].state.terminated
    assert end is not None
    assert end.finished_at is not None
    assert after.metadata.creation_timestamp is not None
    return (after.metadata.creation_timestamp - end.finished_at).total_seconds()


@scenario()
async def test_replacement_waits_twice_as_long_each_time(sim: Simulation) -> None:
    # Rows 27 and 28.
    await sim.create()
    for failed in range(3):
        await sim.until(f"A1 F{failed}", tracked=1)
        await sim.clock.advance(3)
        await sim.fail(*sim.active())
    await sim.until("A1 F3", there=4, tracked=1)
    if sim.undisturbed:
        pods = sim.pods_of()
        waits = [gap(before, after) for before, after in pairwise(pods)]
        assert all(delay <= wait < delay + 2 for wait, delay in zip(waits, (10, 20, 40), strict=True)), waits


async def disown(sim: Simulation, pod: Pod, failed: int) -> None:
    """Take a failed pod's owner away once as many failures are on record, and it is one of them."""
    await sim.wait(lambda: sim.job().status.failed == failed and not is_tracked(sim.pods.all[pod.metadata.uid]))
    await sim.client.merge_patch(Pod, pod.key, {"metadata": {"ownerReferences": None}})


@scenario()
async def test_failure_that_is_counted_again_doubles_the_waiting(sim: Simulation) -> None:
    # As upstream: a failed pod that loses its owner is adopted and counted again.
    await sim.create()
    await sim.until("A1", tracked=1)
    (first,) = sim.active()
    await sim.clock.advance(3)
    await sim.fail(first)
    for failed in (1, 2):
        await disown(sim, first, failed)
    await sim.until("A1 F3", tracked=1)
    if sim.undisturbed:
        first, second = sim.pods_of()
        assert 40 <= gap(first, second) < 42


@scenario()
async def test_success_ends_the_waiting(sim: Simulation) -> None:
    # Row 29.
    await sim.create(completions=2, parallelism=1)
    for failed in range(3):
        await sim.until(f"A1 F{failed}")
        await sim.fail(*sim.active())
    await sim.until("A1 F3")
    await sim.clock.advance(2)
    await sim.succeed(*sim.active())
    await sim.until("A1 S1 F3", seconds=1.5 if sim.undisturbed else 60)


@scenario()
async def test_no_failure_is_forgiven_with_limit_zero(sim: Simulation) -> None:
    # Row 31.
    await sim.create(backoffLimit=0)
    await sim.until("A1")
    await sim.fail(*sim.active())
    await sim.ends("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    await sim.until("F1", made=1, there=1, tracked=0)
    if sim.undisturbed:
        assert ("BackoffLimitExceeded", "Job has reached the specified backoff limit") in await sim.events()


@pytest.mark.parametrize("limit", [1, 3])
@scenario()
async def test_job_fails_when_one_pod_more_has_failed(sim: Simulation, limit: int) -> None:
    # Rows 32 and 33.
    await fail_until_it_is_too_much(sim, limit)


@scenario()
async def test_job_fails_at_the_seventh_failure_unless_told_otherwise(sim: Simulation) -> None:
    # Row 34.
    await fail_until_it_is_too_much(sim, 6)


async def fail_until_it_is_too_much(sim: Simulation, limit: int) -> None:
    """Run a Job whose pods all fail; each ends by itself, is kept, and counts."""
    await sim.create(backoffLimit=limit)
    for failed in range(limit + 1):
        await sim.until(f"A1 F{failed}")
        await sim.fail(*sim.active())
    await sim.ends("Failed", "BackoffLimitExceeded")
    await sim.until(f"F{limit + 1}", made=limit + 1, there=limit + 1, ended=limit + 1, tracked=0)


@pytest.mark.parametrize("last", ["gone", "Failed", "Succeeded"])
@scenario()
async def test_failed_waits_for_the_last_pod(sim: Simulation, last: str) -> None:
    # Row 35.
    await sim.create(parallelism=2, completions=2, backoffLimit=0, held=True)
    await sim.until("A2")
    first, second = sim.active()
    await sim.fail(first)
    await sim.interim("FailureTarget", "BackoffLimitExceeded")
    await sim.until("T1 F2")
    await sim.stays("T1 F2")
    await (sim.release([second]) if last == "gone" else sim.end(second, last, 1))
    job = await sim.ends("Failed", "BackoffLimitExceeded")
    assert job.status.completion_time is None
    await sim.until("F2", made=2, tracked=0)


@scenario()
async def test_failure_among_successes_is_found_after_a_restart(sim: Simulation) -> None:
    # Row 37.
    await sim.create(parallelism=10, completions=10, backoffLimit=0)
    await sim.until("A10")
    await sim.crash()
    await sim.bind(*sim.active())
    first, *others = sim.active()
    await sim.fail(first)
    await sim.succeed(*others)
    await sim.start()
    await sim.ends("Failed", "BackoffLimitExceeded")
    await sim.until("S9 F1", made=10, tracked=0)


@scenario()
async def test_ready_pod_stays_active_during_the_backoff(sim: Simulation) -> None:
    # Row 38. Difference: backoff-status.
    await sim.create(parallelism=2, completions=2)
    await sim.until("A2")
    ready, failing = sim.active()
    await sim.ready(ready)
    await sim.until("A2 R1")
    await sim.fail(failing)
    if sim.undisturbed:
        await sim.until("A1 R1 F1", seconds=5)
    await sim.until("A2 R1 F1")


@scenario(collects=True)
async def test_namesake_does_not_wait_for_old_failures(sim: Simulation) -> None:
    # Row 39.
    await sim.create()
    await sim.until("A1")
    await sim.fail(*sim.active())
    await sim.wait(lambda: sim.job().status.failed == 1)
    old = sim.job().metadata.uid
    await sim.delete()
    await sim.create()
    await sim.until("A1", seconds=1 if sim.undisturbed else 60)
    assert sim.job().metadata.uid != old


@scenario(soak=True)
async def test_failure_at_the_first_moment_leaves_no_pod_held(sim: Simulation) -> None:
    # Row 36.
    await sim.create(completionMode="Indexed", parallelism=100, completions=100, backoffLimit=0)
    await sim.wait(lambda: bool(sim.pods.all))
    await sim.fail(sim.active()[0])
    await sim.ends("Failed", "BackoffLimitExceeded")
    assert sim.numbers()["tracked"] == 0
    job = sim.job()
    assert job.status.failed == len(sim.pods.all)
