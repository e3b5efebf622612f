"""A Job created again under its name inherits nothing: the scenarios of job-controller §40."""

import pytest

from kcr.api.batch import Job
from kcr.api.core import Pod
from tests.kit.scenario import World, flow


def lives(world: World) -> tuple[bool, ...]:
    """Say of each Job that has the name before the last whether the controller dies when the Job goes.

    A flow whose controller dies at every write needs it only once.
    """
    return (False, True) if world.undisturbed else (False,)


async def clean_start(world: World, job: Job, pods: int, *, seconds: float = 1) -> None:
    """See that a Job begins as if there never had been another: at once, and with nothing counted."""
    await world.wait(
        lambda: world.job().status.active == pods,
        f"{pods} pods",
        seconds=seconds if world.undisturbed else 60,
    )
    found, created = world.job(), job.metadata.creation_timestamp
    assert found.metadata.uid == job.metadata.uid
    assert (found.status.succeeded, found.status.failed) == (0, 0)
    assert created is not None
    assert found.status.start_time is not None
    assert found.status.start_time >= created


@flow(collects=True)
async def test_old_failure_is_not_counted_for_the_new_job(world: World) -> None:
    # Row 151: the old Job's end has not been heard of when its pod fails; three Jobs of one name.
    job = await world.create()
    for crash in lives(world):
        await world.until("A1")
        old, failing = job, world.active()
        world.withhold("jobs")
        await world.fail(*failing)
        await world.delete()
        if crash:
            await world.crash()
        job = await world.create()
        await world.clock.advance(3)
        world.let_through("jobs")
        await world.start()
        await clean_start(world, job, 1)
        assert world.jobs.all[old.metadata.uid].status.failed == 0 or not world.undisturbed
    await world.clock.advance(60)
    assert len(world.pods.there) == 1
    await world.succeed(*world.active())
    await world.ends("Complete", "CompletionsReached")
    await world.until("S1", there=1)


@pytest.mark.parametrize("fate", ["finished", "in-backoff"])
@flow(collects=True)
async def test_old_end_and_delay_hold_nothing_back(world: World, fate: str) -> None:
    # Row 152.
    for crash in lives(world):
        job = await world.create()
        await clean_start(world, job, 1)
        failures = 3 if world.undisturbed else 1
        for failed in range(failures if fate == "in-backoff" else 0):
            await world.until(f"A1 F{failed}")
            await world.fail(*world.active())
        if fate == "in-backoff":
            await world.until(failed=failures)
        else:
            await world.succeed(*world.active())
            await world.ends("Complete", "CompletionsReached")
        if crash:
            await world.crash()
        await world.delete()
        await world.start()
    job = await world.create()
    await clean_start(world, job, 1)


@flow(collects=True)
async def test_old_pods_that_go_take_no_place(world: World) -> None:
    # Row 153.
    old: list[Pod] = []
    for crash in lives(world):
        job = await world.create(parallelism=2, completions=2, podReplacementPolicy="Failed", held=True)
        await clean_start(world, job, 2)
        await world.until("A2")
        old += world.active()
        if crash:
            await world.crash()
        await world.delete()
        await world.start()
    job = await world.create(parallelism=2, completions=2, podReplacementPolicy="Failed")
    await clean_start(world, job, 2)
    await world.until("A2")
    await world.fail(*old[::2])
    await world.release(old)
    await world.stays("A2")
    await world.until("A2", there=2)
    assert len(world.pods.there) == 2


@pytest.mark.parametrize("suspend", [False, True], ids=["runs", "suspended"])
@flow(collects=True)
async def test_old_creations_are_not_waited_for(world: World, suspend: bool) -> None:
    # Row 154.
    for crash in lives(world):
        world.withhold("pods")
        await world.create(parallelism=5)
        await world.clock.advance(1)
        if crash:
            await world.crash()
        await world.delete()
        await world.start()
        job = await world.create(parallelism=5, suspend=suspend)
        if world.undisturbed and not crash:
            if suspend:
                await world.wait(lambda: bool(world.job().status.conditions), seconds=1)
            else:
                await clean_start(world, job, 5)
        world.let_through("pods")
        await world.until("" if suspend else "A5", there=0 if suspend else 5)
        await world.stays("" if suspend else "A5")
        assert len(world.pods.there) == (0 if suspend else 5)
        if world.undisturbed:
            await world.delete()
            await world.wait(lambda: not world.pods.there)
