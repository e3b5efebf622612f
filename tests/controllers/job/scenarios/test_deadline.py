"""Jobs that run out of time: the scenarios of job-controller §37.5."""

import pytest

from tests.kit.scenario import Simulation, scenario

MESSAGE = "Job was active longer than specified deadline"


@pytest.mark.parametrize("limit", [6, 0])
@scenario()
async def test_deadline_ends_endless_pods(sim: Simulation, limit: int) -> None:
    # Row 49; that the pods go then is no other reason.
    await sim.create(activeDeadlineSeconds=1, parallelism=2, backoffLimit=limit)
    await sim.wait(lambda: len(sim.pods.all) == 2)
    await sim.bind(*sim.active())
    pods = sim.active()
    await sim.ready(*pods)
    await sim.interim("FailureTarget", "DeadlineExceeded")
    if sim.undisturbed:
        assert 1 <= (sim.clock.now() - sim.began).total_seconds() < 2
    await sim.until("T2 F2")
    await sim.kill(pods)
    await sim.ends("Failed", "DeadlineExceeded", MESSAGE)
    await sim.until("F2", made=2, there=0)


@scenario()
async def test_deadline_comes_before_the_limit(sim: Simulation) -> None:
    # Row 50.
    await sim.create(activeDeadlineSeconds=100, backoffLimit=5)
    for failed in range(3):
        await sim.until(f"A1 F{failed}")
        await sim.clock.advance(5)
        await sim.fail(*sim.active())
    await sim.ends("Failed", "DeadlineExceeded", MESSAGE)
    made = len(sim.pods.all)
    assert made <= 4
    await sim.clock.advance(600)
    await sim.until(f"F{made}", made=made)


@scenario()
async def test_what_succeeded_before_the_deadline_stays(sim: Simulation) -> None:
    # Row 52.
    await sim.create(activeDeadlineSeconds=10, parallelism=2, completions=2)
    await sim.until("A2")
    await sim.succeed(sim.active()[0])
    await sim.until("A1 S1")
    await sim.crash()
    await sim.clock.advance(15)
    await sim.start()
    await sim.ends("Failed", "DeadlineExceeded", MESSAGE)
    await sim.until("S1 F1", there=1, made=2)


@scenario()
async def test_deadline_needs_no_pod(sim: Simulation) -> None:
    # Row 53.
    await sim.create(activeDeadlineSeconds=10, parallelism=0)
    await sim.ends("Failed", "DeadlineExceeded", MESSAGE, seconds=12)
    await sim.until("", made=0)


@scenario()
async def test_suspension_comes_before_the_deadline(sim: Simulation) -> None:
    # Row 54.
    await sim.create(activeDeadlineSeconds=10)
    await sim.until("A1")
    await sim.crash()
    await sim.patch(suspend=True)
    await sim.clock.advance(15)
    await sim.start()
    job = await sim.until("", start_time=None, there=0)
    assert [(condition.type, condition.status) for condition in job.status.conditions] == [("Suspended", "True")]
    await sim.stays("")


@scenario()
async def test_resumed_job_has_all_its_time_again(sim: Simulation) -> None:
    # Row 55.
    await sim.create(activeDeadlineSeconds=10)
    await sim.until("A1")
    await sim.patch(suspend=True)
    await sim.until("", start_time=None)
    await sim.clock.advance(100)
    await sim.patch(suspend=False)
    await sim.until("A1")
    await sim.stays("A1", seconds=8)
    await sim.ends("Failed", "DeadlineExceeded", MESSAGE, seconds=5)


@scenario()
async def test_shortened_deadline_holds_at_once(sim: Simulation) -> None:
    # Row 56.
    await sim.create(activeDeadlineSeconds=3600)
    await sim.until("A1")
    await sim.clock.advance(60)
    await sim.patch(activeDeadlineSeconds=10)
    await sim.ends("Failed", "DeadlineExceeded", MESSAGE, seconds=0.1 if sim.undisturbed else 60)
    await sim.until("F1", made=1, there=0)
