"""Jobs that need not all of their indexes, with successPolicy: the scenarios of job-controller §37.11."""

from typing import Any

from tests.kit.scenario import Simulation, scenario

MATCHED = "Matched rules at index 0"
FAIL_JOB = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}


async def create(sim: Simulation, completions: int, *rules: dict[str, Any], **spec: Any) -> None:
    """Create an Indexed Job that runs all of its indexes at once unless told otherwise."""
    shape: dict[str, Any] = {"completionMode": "Indexed", "parallelism": completions, "completions": completions}
    await sim.create(**shape | {"successPolicy": {"rules": rules}} | spec)


@scenario()
async def test_index_that_matters_is_enough(sim: Simulation) -> None:
    # Row 114.
    # Nothing else may be made of the pod that goes then: it would be a failure too many.
    await create(sim, 2, {"succeededIndexes": "1"}, backoffLimit=0)
    await sim.until("A2")
    await sim.succeed(*sim.active(1))
    await sim.ends("Complete", "SuccessPolicy", MATCHED)
    await sim.until("S1", completed_indexes="1", made=2, there=1)


@scenario()
async def test_one_success_may_be_enough(sim: Simulation) -> None:
    # Row 115.
    await create(sim, 5, {"succeededCount": 1}, parallelism=1)
    await sim.until("A1")
    await sim.succeed(*sim.active(0))
    await sim.ends("Complete", "SuccessPolicy", MATCHED)
    await sim.until("S1", completed_indexes="0", made=1)


@scenario()
async def test_later_rule_may_be_the_one_that_is_met(sim: Simulation) -> None:
    # Rows 116 and 117: two of the indexes 3 to 6 would do, but the one that has succeeded is not enough.
    await create(sim, 8, {"succeededIndexes": "3-6", "succeededCount": 2}, {"succeededIndexes": "0,7"})
    await sim.until("A8")
    await sim.succeed(*sim.active(0), *sim.active(3))
    await sim.until("A6 S2", completed_indexes="0,3")
    await sim.succeed(*sim.active(7))
    await sim.ends("Complete", "SuccessPolicy", "Matched rules at index 1")
    await sim.until("S3", completed_indexes="0,3,7", made=8)


@scenario()
async def test_policy_comes_before_the_completions(sim: Simulation) -> None:
    # Row 118.
    await create(sim, 3, {"succeededIndexes": "0"})
    await sim.until("A3")
    await sim.crash()
    await sim.succeed(*sim.active())
    await sim.start()
    await sim.ends("Complete", "SuccessPolicy", MATCHED)
    await sim.until("S3", completed_indexes="0-2", made=3)


@scenario()
async def test_failure_comes_before_the_success_policy(sim: Simulation) -> None:
    # Row 119.
    await create(sim, 2, {"succeededIndexes": "0"}, podFailurePolicy=FAIL_JOB)
    await sim.until("A2")
    await sim.crash()
    await sim.succeed(*sim.active(0))
    await sim.fail(*sim.active(1), exit_code=42)
    await sim.start()
    await sim.ends("Failed", "PodFailurePolicy")
    await sim.until("S1 F1", completed_indexes="0")


@scenario()
async def test_success_that_is_recorded_stands(sim: Simulation) -> None:
    # Row 120.
    await create(sim, 2, {"succeededIndexes": "0"}, podFailurePolicy=FAIL_JOB, backoffLimit=0, held=True)
    await sim.until("A2")
    (other,) = sim.active(1)
    await sim.succeed(*sim.active(0))
    await sim.interim("SuccessCriteriaMet", "SuccessPolicy")
    await sim.until("S1 T1")
    await sim.fail(other, exit_code=42)
    await sim.ends("Complete", "SuccessPolicy", MATCHED)
    await sim.until("S1", completed_indexes="0")


@scenario()
async def test_failure_that_is_recorded_stands(sim: Simulation) -> None:
    # Row 121.
    await create(sim, 2, {"succeededIndexes": "0"}, podFailurePolicy=FAIL_JOB, held=True)
    await sim.until("A2")
    (other,) = sim.active(0)
    await sim.fail(*sim.active(1), exit_code=42)
    await sim.interim("FailureTarget", "PodFailurePolicy")
    await sim.until(terminating=1)
    await sim.succeed(other)
    await sim.ends("Failed", "PodFailurePolicy")


@scenario()
async def test_all_indexes_done_comes_before_the_success_policy(sim: Simulation) -> None:
    # Row 122.
    await create(sim, 2, {"succeededCount": 1}, backoffLimitPerIndex=0)
    await sim.until("A2")
    await sim.fail(*sim.active(0))
    await sim.until("A1 F1", failed_indexes="0")
    await sim.succeed(*sim.active(1))
    await sim.ends("Failed", "FailedIndexes", "Job has failed indexes")
    await sim.until("S1 F1", failed_indexes="0", completed_indexes="1")


@scenario()
async def test_index_with_more_zeros_than_python_reads_is_that_index(sim: Simulation) -> None:
    # §19.3: the server stores any number of leading zeros.
    await create(sim, 2, {"succeededIndexes": f"{'0' * 4300}1"})
    await sim.until("A2")
    await sim.succeed(*sim.active(1))
    await sim.ends("Complete", "SuccessPolicy", MATCHED)
    await sim.until("S1", completed_indexes="1", made=2)
