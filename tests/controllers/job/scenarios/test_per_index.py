"""Indexes that fail each for itself, with backoffLimitPerIndex: the scenarios of job-controller §37.9."""

from itertools import pairwise
from typing import Any

from kcr.api.core import Pod
from tests.kit.scenario import Simulation, scenario

FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"
MESSAGE = "Job has failed indexes"


async def create(sim: Simulation, completions: int, **spec: Any) -> None:
    """Create an Indexed Job that runs all of its indexes at once unless told otherwise."""
    shape: dict[str, Any] = {"completionMode": "Indexed", "parallelism": completions, "completions": completions}
    await sim.create(**shape | spec)


def failures(*pods: Pod) -> list[str | None]:
    return [pod.metadata.annotations.get(FAILURES) for pod in pods]


@scenario()
async def test_failed_pod_stays_until_its_replacement_is_there(sim: Simulation) -> None:
    # Row 86.
    await create(sim, 2, backoffLimitPerIndex=1)
    await sim.until("A2", failed_indexes="")
    assert failures(*sim.active()) == ["0", "0"]
    (failed,) = sim.active(0)
    await sim.fail(failed)
    await sim.until("A1", failed_indexes="", tracked=2)
    await sim.delete_pods([failed])
    await sim.clock.advance(5)
    await sim.until("A1", there=2, tracked=2)
    await sim.until("A2 F1", failed_indexes="", there=2, made=3)
    assert failures(*sim.active(0)) == ["1"]


@scenario()
async def test_index_fails_for_good_and_the_others_go_on(sim: Simulation) -> None:
    # Row 87.
    await create(sim, 2, backoffLimitPerIndex=2)
    for failed in range(3):
        await sim.until(f"A2 F{failed}", failed_indexes="")
        assert failures(*sim.active(0)) == [str(failed)]
        await sim.fail(*sim.active(0))
    await sim.until("A1 F3", failed_indexes="0")
    await sim.stays("A1 F3")
    await sim.succeed(*sim.active(1))
    await sim.ends("Failed", "FailedIndexes", MESSAGE)
    await sim.until("S1 F3", failed_indexes="0", completed_indexes="1", made=4, tracked=0)


@scenario()
async def test_limit_zero_gives_an_index_one_pod(sim: Simulation) -> None:
    # Row 88.
    await create(sim, 2, backoffLimitPerIndex=0)
    await sim.until("A2")
    await sim.fail(*sim.active(0))
    await sim.until("A1 F1", failed_indexes="0")
    await sim.succeed(*sim.active(1))
    await sim.ends("Failed", "FailedIndexes", MESSAGE)
    await sim.until("S1 F1", failed_indexes="0", completed_indexes="1", made=2)


@scenario()
async def test_odd_indexes_fail_and_even_ones_succeed(sim: Simulation) -> None:
    # Row 89.
    await create(sim, 4, backoffLimitPerIndex=1)
    await sim.until("A4")
    await sim.succeed(*sim.active(0), *sim.active(2))
    await sim.fail(*sim.active(1), *sim.active(3))
    await sim.until("A2 S2 F2", failed_indexes="")
    await sim.fail(*sim.active())
    await sim.ends("Failed", "FailedIndexes", MESSAGE)
    await sim.until("S2 F4", failed_indexes="1,3", completed_indexes="0,2", made=6)


@scenario()
async def test_first_failed_index_may_be_too_many(sim: Simulation) -> None:
    # Row 90.
    await create(sim, 4, parallelism=1, backoffLimitPerIndex=0, maxFailedIndexes=0)
    await sim.until("A1")
    await sim.fail(*sim.active(0))
    message = "Job has exceeded the specified maximal number of failed indexes"
    await sim.ends("Failed", "MaxFailedIndexesExceeded", message)
    await sim.until("F1", failed_indexes="0", made=1)


@scenario()
async def test_other_pods_go_when_too_many_indexes_have_failed(sim: Simulation) -> None:
    # Row 91.
    await create(sim, 3, backoffLimitPerIndex=0, maxFailedIndexes=1)
    await sim.until("A3")
    await sim.fail(*sim.active(0))
    await sim.until("A2 F1", failed_indexes="0")
    await sim.fail(*sim.active(1))
    await sim.ends("Failed", "MaxFailedIndexesExceeded")
    await sim.until("F3", failed_indexes="0,1", made=3, there=2)


@scenario()
async def test_limit_of_the_whole_job_holds_as_well(sim: Simulation) -> None:
    # Row 92.
    await create(sim, 3, backoffLimitPerIndex=1, backoffLimit=2)
    for index in range(3):
        await sim.until(f"A3 F{index}", failed_indexes="")
        (pod,) = (pod for pod in sim.active(index) if failures(pod) == ["0"])
        await sim.fail(pod)
    await sim.ends("Failed", "BackoffLimitExceeded")
    await sim.until("F5", failed_indexes="", made=5)


@scenario()
async def test_each_index_waits_for_itself(sim: Simulation) -> None:
    # Row 93: the delays are told by the pods, and outlive the controller.
    await create(sim, 2, backoffLimitPerIndex=2)
    ends: dict[tuple[int, int], float] = {}

    async def fail(index: int, failed: int) -> None:
        (pod,) = sim.active(index)
        made = (pod.metadata.creation_timestamp or sim.began) - sim.began
        if failed:
            waited = made.total_seconds() - ends[index, failed - 1]
            assert 10 * failed <= waited < 20 * failed, f"index {index}, after {failed} failures: {waited} s"
        # Whole seconds, as the pod says it.
        ends[index, failed] = (sim.clock.now() - sim.began).total_seconds() // 1
        await sim.fail(pod)

    await sim.until("A2")
    for failed in range(3):
        for index in range(2):
            await sim.wait(
                lambda index=index, failed=failed: failures(*sim.active(index)) == [str(failed)]  # type: ignore[misc]  # bound at once
            )
            await sim.clock.advance(3)
            await fail(index, failed)
    await sim.ends("Failed", "FailedIndexes")
    await sim.until("F6", failed_indexes="0,1")


@scenario()
async def test_rule_fails_an_index_at_once(sim: Simulation) -> None:
    # Row 95.
    rules = [
        {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [13]}},
        {"action": "FailIndex", "onPodConditions": [{"type": "DisruptionTarget"}]},
    ]
    await create(sim, 2, backoffLimitPerIndex=1, podFailurePolicy={"rules": rules})
    await sim.until("A2")
    await sim.fail(*sim.active(0), exit_code=13)
    await sim.until("A1 F1", failed_indexes="0")
    await sim.fail(*sim.active(1), exit_code=137, condition="DisruptionTarget")
    await sim.ends("Failed", "FailedIndexes", MESSAGE)
    await sim.until("F2", failed_indexes="0,1", made=2)


@scenario()
async def test_ignored_failure_does_not_count_for_its_index(sim: Simulation) -> None:
    # Row 96.
    rules = [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [13]}}]
    await create(sim, 1, backoffLimitPerIndex=1, podFailurePolicy={"rules": rules})
    for ignored in (None, "1", "2"):
        await sim.wait(lambda ignored=ignored: ignored_of(sim) == [ignored])  # type: ignore[misc]  # bound at once
        await sim.until("A1", tracked=1)
        assert failures(*sim.active()) == ["0"]
        await sim.fail(*sim.active(), exit_code=13)
    await sim.until("A1", made=4, tracked=1)
    made = [pod.metadata.creation_timestamp or sim.began for pod in sim.pods_of()]
    waits = [(after - before).total_seconds() for before, after in pairwise(made)]
    assert all(delay <= wait < 2 * delay for wait, delay in zip(waits, (10, 20, 40), strict=True)), waits


def ignored_of(sim: Simulation) -> list[str | None]:
    return [pod.metadata.annotations.get(IGNORED) for pod in sim.active()]
