"""A Job created again under its name inherits nothing: the scenarios of job-controller §40."""

import pytest

from kcr.api.batch import Job
from kcr.api.core import Pod
from tests.kit.scenario import Simulation, scenario


def lives(sim: Simulation) -> tuple[bool, ...]:
    """Say of each Job that has the name before the last whether the controller dies when the Job goes.

    A flow whose controller dies at every write needs it only once.
    """
    return (False, True) if sim.undisturbed else (False,)


async def clean_start(sim: Simulation, job: Job, pods: int, *, seconds: float = 1) -> None:
    """See that a Job begins as if there never had been another: at once, and with nothing counted."""
    await sim.wait(
        lambda: sim.job().status.active == pods,
        f"{pods} pods",
        seconds=seconds if sim.undisturbed else 60,
    )
    found, created = sim.job(), job.metadata.creation_timestamp
    assert found.metadata.uid == job.metadata.uid
    assert (found.status.succeeded, found.status.failed) == (0, 0)
    assert created is not None
    assert found.status.start_time is not None
    assert found.status.start_time >= created


@scenario(collects=True)
async def test_old_failure_is_not_counted_for_the_new_job(sim: Simulation) -> None:
    # Row 151: the old Job's end has not been heard of when its pod fails; three Jobs of one name.
    job = await sim.create()
    for crash in lives(sim):
        await sim.until("A1")
        old, failing = job, sim.active()
        sim.withhold(Job)
        await sim.fail(*failing)
        await sim.delete()
        if crash:
            await sim.crash()
        job = await sim.create()
        await sim.clock.advance(3)
        sim.let_through(Job)
        await sim.start()
        await clean_start(sim, job, 1)
        assert sim.jobs.all[old.metadata.uid].status.failed == 0 or not sim.undisturbed
    await sim.clock.advance(60)
    assert len(sim.pods.there) == 1
    await sim.succeed(*sim.active())
    await sim.ends("Complete", "CompletionsReached")
    await sim.until("S1", there=1)


@pytest.mark.parametrize("fate", ["finished", "in-backoff"])
@scenario(collects=True)
async def test_old_end_and_delay_hold_nothing_back(sim: Simulation, fate: str) -> None:
    # Row 152.
    for crash in lives(sim):
        job = await sim.create()
        await clean_start(sim, job, 1)
        failures = 3 if sim.undisturbed else 1
        for failed in range(failures if fate == "in-backoff" else 0):
            await sim.until(f"A1 F{failed}")
            await sim.fail(*sim.active())
        if fate == "in-backoff":
            await sim.until(failed=failures)
        else:
            await sim.succeed(*sim.active())
            await sim.ends("Complete", "CompletionsReached")
        if crash:
            await sim.crash()
        await sim.delete()
        await sim.start()
    job = await sim.create()
    await clean_start(sim, job, 1)


@scenario(collects=True)
async def test_old_pods_that_go_take_no_place(sim: Simulation) -> None:
    # Row 153.
    old: list[Pod] = []
    for crash in lives(sim):
        job = await sim.create(parallelism=2, completions=2, podReplacementPolicy="Failed", held=True)
        await clean_start(sim, job, 2)
        await sim.until("A2")
        old += sim.active()
        if crash:
            await sim.crash()
        await sim.delete()
        await sim.start()
    job = await sim.create(parallelism=2, completions=2, podReplacementPolicy="Failed")
    await clean_start(sim, job, 2)
    await sim.until("A2")
    await sim.fail(*old[::2])
    await sim.release(old)
    await sim.stays("A2")
    await sim.until("A2", there=2)
    assert len(sim.pods.there) == 2


@pytest.mark.parametrize("suspend", [False, True], ids=["runs", "suspended"])
@scenario(collects=True)
async def test_old_creations_are_not_waited_for(sim: Simulation, suspend: bool) -> None:
    # Row 154.
    for crash in lives(sim):
        sim.withhold(Pod)
        await sim.create(parallelism=5)
        await sim.clock.advance(1)
        if crash:
            await sim.crash()
        await sim.delete()
        await sim.start()
        job = await sim.create(parallelism=5, suspend=suspend)
        if sim.undisturbed and not crash:
            if suspend:
                await sim.wait(lambda: bool(sim.job().status.conditions), seconds=1)
            else:
                await clean_start(sim, job, 5)
        sim.let_through(Pod)
        await sim.until("" if suspend else "A5", there=0 if suspend else 5)
        await sim.stays("" if suspend else "A5")
        assert len(sim.pods.there) == (0 if suspend else 5)
        if sim.undisturbed:
            await sim.delete()
            await sim.wait(lambda: not sim.pods.there)
