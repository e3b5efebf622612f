"""Jobs that run out of time: the scenarios of job-controller §37.5."""

import pytest

from tests.kit.scenario import World, flow

MESSAGE = "Job was active longer than specified deadline"


@pytest.mark.parametrize("limit", [6, 0])
@flow()
async def test_deadline_ends_endless_pods(world: World, limit: int) -> None:
    # Row 49; that the pods go then is no other reason.
    await world.create(activeDeadlineSeconds=1, parallelism=2, backoffLimit=limit)
    await world.wait(lambda: len(world.pods.all) == 2)
    await world.bind(*world.active())
    pods = world.active()
    await world.ready(*pods)
    await world.interim("FailureTarget", "DeadlineExceeded")
    if world.undisturbed:
        assert 1 <= (world.clock.now() - world.began).total_seconds() < 2
    await world.until("T2 F2")
    await world.kill(pods)
    await world.ends("Failed", "DeadlineExceeded", MESSAGE)
    await world.until("F2", made=2, there=0)


@flow()
async def test_deadline_comes_before_the_limit(world: World) -> None:
    # Row 50.
    await world.create(activeDeadlineSeconds=100, backoffLimit=5)
    for failed in range(3):
        await world.until(f"A1 F{failed}")
        await world.clock.advance(5)
        await world.fail(*world.active())
    await world.ends("Failed", "DeadlineExceeded", MESSAGE)
    made = len(world.pods.all)
    assert made <= 4
    await world.clock.advance(600)
    await world.until(f"F{made}", made=made)


@flow()
async def test_what_succeeded_before_the_deadline_stays(world: World) -> None:
    # Row 52.
    await world.create(activeDeadlineSeconds=10, parallelism=2, completions=2)
    await world.until("A2")
    await world.succeed(world.active()[0])
    await world.until("A1 S1")
    await world.crash()
    await world.clock.advance(15)
    await world.start()
    await world.ends("Failed", "DeadlineExceeded", MESSAGE)
    await world.until("S1 F1", there=1, made=2)


@flow()
async def test_deadline_needs_no_pod(world: World) -> None:
    # Row 53.
    await world.create(activeDeadlineSeconds=10, parallelism=0)
    await world.ends("Failed", "DeadlineExceeded", MESSAGE, seconds=12)
    await world.until("", made=0)


@flow()
async def test_suspension_comes_before_the_deadline(world: World) -> None:
    # Row 54.
    await world.create(activeDeadlineSeconds=10)
    await world.until("A1")
    await world.crash()
    await world.patch(suspend=True)
    await world.clock.advance(15)
    await world.start()
    job = await world.until("", start_time=None, there=0)
    assert [(condition.type, condition.status) for condition in job.status.conditions] == [("Suspended", "True")]
    await world.stays("")


@flow()
async def test_resumed_job_has_all_its_time_again(world: World) -> None:
    # Row 55.
    await world.create(activeDeadlineSeconds=10)
    await world.until("A1")
    await world.patch(suspend=True)
    await world.until("", start_time=None)
    await world.clock.advance(100)
    await world.patch(suspend=False)
    await world.until("A1")
    await world.stays("A1", seconds=8)
    await world.ends("Failed", "DeadlineExceeded", MESSAGE, seconds=5)


@flow()
async def test_shortened_deadline_holds_at_once(world: World) -> None:
    # Row 56.
    await world.create(activeDeadlineSeconds=3600)
    await world.until("A1")
    await world.clock.advance(60)
    await world.patch(activeDeadlineSeconds=10)
    await world.ends("Failed", "DeadlineExceeded", MESSAGE, seconds=0.1 if world.undisturbed else 60)
    await world.until("F1", made=1, there=0)
