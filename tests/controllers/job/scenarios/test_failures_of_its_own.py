"""Jobs with a backoff and a history of failed pods of their own, whatever happens to the controller."""

from itertools import pairwise

from kcr.api.core import Pod
from kcr.errors import ForbiddenError
from tests.kit.scenario import Simulation, scenario

KEEPS_ONE = {"kcr.dev/failed-pods-history": "1", "kcr.dev/backoff": "1s..2s"}


async def fails(sim: Simulation, count: int) -> list[str]:
    """Let the Job's one pod fail so often, and return the names of these pods."""
    names = []
    for failed in range(count):
        await sim.until(f"A1 F{failed}")
        (pod,) = sim.active()
        names.append(pod.metadata.name)
        await sim.clock.advance(1)
        await sim.fail(pod)
    return names


@scenario(disturbed=False)
async def test_backoff_of_the_job_doubles_up_to_its_maximum(sim: Simulation) -> None:
    await sim.create(backoffLimit=9, annotations={"kcr.dev/backoff": "20s..50s"})
    await fails(sim, 4)
    await sim.until("A1 F4")
    made = [pod.metadata.creation_timestamp for pod in sim.pods.all.values()]
    gaps = [(later - before).total_seconds() for before, later in pairwise(made) if later and before]
    # Each pod runs for a second.
    assert [round(gap) for gap in gaps] == [21, 41, 51, 51]


@scenario()
async def test_latest_failed_pods_are_kept_and_all_are_counted(sim: Simulation) -> None:
    await sim.create(backoffLimit=9, annotations=KEEPS_ONE)
    names = await fails(sim, 3)
    await sim.until("A1 F3", there=2, ended=1)
    assert names[-1] in {pod.metadata.name for pod in sim.pods_of()}
    await sim.succeed(*sim.active())
    await sim.ends("Complete", "CompletionsReached")
    await sim.until("S1 F3", there=2, made=4)


@scenario()
async def test_history_holds_for_a_job_that_fails(sim: Simulation) -> None:
    await sim.create(backoffLimit=2, annotations=KEEPS_ONE)
    names = await fails(sim, 3)
    await sim.ends("Failed", "BackoffLimitExceeded")
    await sim.until("F3", there=1, made=3)
    assert [pod.metadata.name for pod in sim.pods_of()] == names[-1:]


@scenario()
async def test_indexes_with_limits_of_their_own_are_retried_as_ever(sim: Simulation) -> None:
    await sim.create(
        completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=2,
        annotations={"kcr.dev/failed-pods-history": "0", "kcr.dev/backoff": "1s..1s"},
    )  # fmt: skip
    for _ in range(3):
        await sim.wait(lambda: len(sim.active(1)) == 1)
        await sim.fail(*sim.active(1))
    await sim.wait(lambda: not sim.active(1))
    await sim.succeed(*sim.active(0))
    job = await sim.ends("Failed", "FailedIndexes")
    assert (job.status.completed_indexes, job.status.failed_indexes, job.status.failed) == ("0", "1", 3)
    # Of the failed ones none is kept.
    await sim.until(there=1, made=4)


@scenario(disturbed=False)
async def test_pod_that_cannot_be_deleted_delays_no_end(sim: Simulation) -> None:
    await sim.create(backoffLimit=0, annotations={"kcr.dev/failed-pods-history": "0"})
    sim.faults.on("delete", Pod).fail(ForbiddenError(403, "Forbidden", "no"))
    await fails(sim, 1)
    await sim.ends("Failed", "BackoffLimitExceeded")
    await sim.until("F1", there=1)


@scenario(disturbed=False)
async def test_job_without_annotation_keeps_all_failed_pods(sim: Simulation) -> None:
    await sim.create(backoffLimit=2)
    await fails(sim, 3)
    await sim.ends("Failed", "BackoffLimitExceeded")
    await sim.until("F3", there=3)
    assert not any(call.verb == "delete" for call in sim.faults.calls)
