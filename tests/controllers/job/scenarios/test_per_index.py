"""Indexes that fail each for itself, with backoffLimitPerIndex: the scenarios of job-controller §37.9."""

from itertools import pairwise
from typing import Any

from kcr.api.core import Pod
from tests.kit.scenario import World, flow

FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"
MESSAGE = "Job has failed indexes"


async def create(world: World, completions: int, **spec: Any) -> None:
    """Create an Indexed Job that runs all of its indexes at once unless told otherwise."""
    shape: dict[str, Any] = {"completionMode": "Indexed", "parallelism": completions, "completions": completions}
    await world.create(**shape | spec)


def failures(*pods: Pod) -> list[str | None]:
    return [pod.metadata.annotations.get(FAILURES) for pod in pods]


@flow()
async def test_failed_pod_stays_until_its_replacement_is_there(world: World) -> None:
    # Row 86.
    await create(world, 2, backoffLimitPerIndex=1)
    await world.until("A2", failed_indexes="")
    assert failures(*world.active()) == ["0", "0"]
    (failed,) = world.active(0)
    await world.fail(failed)
    await world.until("A1", failed_indexes="", tracked=2)
    await world.delete_pods([failed])
    await world.clock.advance(5)
    await world.until("A1", there=2, tracked=2)
    await world.until("A2 F1", failed_indexes="", there=2, made=3)
    assert failures(*world.active(0)) == ["1"]


@flow()
async def test_index_fails_for_good_and_the_others_go_on(world: World) -> None:
    # Row 87.
    await create(world, 2, backoffLimitPerIndex=2)
    for failed in range(3):
        await world.until(f"A2 F{failed}", failed_indexes="")
        assert failures(*world.active(0)) == [str(failed)]
        await world.fail(*world.active(0))
    await world.until("A1 F3", failed_indexes="0")
    await world.stays("A1 F3")
    await world.succeed(*world.active(1))
    await world.ends("Failed", "FailedIndexes", MESSAGE)
    await world.until("S1 F3", failed_indexes="0", completed_indexes="1", made=4, tracked=0)


@flow()
async def test_limit_zero_gives_an_index_one_pod(world: World) -> None:
    # Row 88.
    await create(world, 2, backoffLimitPerIndex=0)
    await world.until("A2")
    await world.fail(*world.active(0))
    await world.until("A1 F1", failed_indexes="0")
    await world.succeed(*world.active(1))
    await world.ends("Failed", "FailedIndexes", MESSAGE)
    await world.until("S1 F1", failed_indexes="0", completed_indexes="1", made=2)


@flow()
async def test_odd_indexes_fail_and_even_ones_succeed(world: World) -> None:
    # Row 89.
    await create(world, 4, backoffLimitPerIndex=1)
    await world.until("A4")
    await world.succeed(*world.active(0), *world.active(2))
    await world.fail(*world.active(1), *world.active(3))
    await world.until("A2 S2 F2", failed_indexes="")
    await world.fail(*world.active())
    await world.ends("Failed", "FailedIndexes", MESSAGE)
    await world.until("S2 F4", failed_indexes="1,3", completed_indexes="0,2", made=6)


@flow()
async def test_first_failed_index_may_be_too_many(world: World) -> None:
    # Row 90.
    await create(world, 4, parallelism=1, backoffLimitPerIndex=0, maxFailedIndexes=0)
    await world.until("A1")
    await world.fail(*world.active(0))
    message = "Job has exceeded the specified maximal number of failed indexes"
    await world.ends("Failed", "MaxFailedIndexesExceeded", message)
    await world.until("F1", failed_indexes="0", made=1)


@flow()
async def test_other_pods_go_when_too_many_indexes_have_failed(world: World) -> None:
    # Row 91.
    await create(world, 3, backoffLimitPerIndex=0, maxFailedIndexes=1)
    await world.until("A3")
    await world.fail(*world.active(0))
    await world.until("A2 F1", failed_indexes="0")
    await world.fail(*world.active(1))
    await world.ends("Failed", "MaxFailedIndexesExceeded")
    await world.until("F3", failed_indexes="0,1", made=3, there=2)


@flow()
async def test_limit_of_the_whole_job_holds_as_well(world: World) -> None:
    # Row 92.
    await create(world, 3, backoffLimitPerIndex=1, backoffLimit=2)
    for index in range(3):
        await world.until(f"A3 F{index}", failed_indexes="")
        (pod,) = (pod for pod in world.active(index) if failures(pod) == ["0"])
        await world.fail(pod)
    await world.ends("Failed", "BackoffLimitExceeded")
    await world.until("F5", failed_indexes="", made=5)


@flow()
async def test_each_index_waits_for_itself(world: World) -> None:
    # Row 93: the delays are told by the pods, and outlive the controller.
    await create(world, 2, backoffLimitPerIndex=2)
    ends: dict[tuple[int, int], float] = {}

    async def fail(index: int, failed: int) -> None:
        (pod,) = world.active(index)
        made = (pod.metadata.creation_timestamp or world.began) - world.began
        if failed:
            waited = made.total_seconds() - ends[index, failed - 1]
            assert 10 * failed <= waited < 20 * failed, f"index {index}, after {failed} failures: {waited} s"
        # Whole seconds, as the pod says it.
        ends[index, failed] = (world.clock.now() - world.began).total_seconds() // 1
        await world.fail(pod)

    await world.until("A2")
    for failed in range(3):
        for index in range(2):
            await world.wait(
                lambda index=index, failed=failed: failures(*world.active(index)) == [str(failed)]  # type: ignore[misc]  # bound at once
            )
            await world.clock.advance(3)
            await fail(index, failed)
    await world.ends("Failed", "FailedIndexes")
    await world.until("F6", failed_indexes="0,1")


@flow()
async def test_rule_fails_an_index_at_once(world: World) -> None:
    # Row 95.
    rules = [
        {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [13]}},
        {"action": "FailIndex", "onPodConditions": [{"type": "DisruptionTarget"}]},
    ]
    await create(world, 2, backoffLimitPerIndex=1, podFailurePolicy={"rules": rules})
    await world.until("A2")
    await world.fail(*world.active(0), exit_code=13)
    await world.until("A1 F1", failed_indexes="0")
    await world.fail(*world.active(1), exit_code=137, condition="DisruptionTarget")
    await world.ends("Failed", "FailedIndexes", MESSAGE)
    await world.until("F2", failed_indexes="0,1", made=2)


@flow()
async def test_ignored_failure_does_not_count_for_its_index(world: World) -> None:
    # Row 96.
    rules = [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [13]}}]
    await create(world, 1, backoffLimitPerIndex=1, podFailurePolicy={"rules": rules})
    for ignored in (None, "1", "2"):
        await world.wait(lambda ignored=ignored: ignored_of(world) == [ignored])  # type: ignore[misc]  # bound at once
        await world.until("A1", tracked=1)
        assert failures(*world.active()) == ["0"]
        await world.fail(*world.active(), exit_code=13)
    await world.until("A1", made=4, tracked=1)
    made = [pod.metadata.creation_timestamp or world.began for pod in world.pods_of()]
    waits = [(after - before).total_seconds() for before, after in pairwise(made)]
    assert all(delay <= wait < 2 * delay for wait, delay in zip(waits, (10, 20, 40), strict=True)), waits


def ignored_of(world: World) -> list[str | None]:
    return [pod.metadata.annotations.get(IGNORED) for pod in world.active()]
