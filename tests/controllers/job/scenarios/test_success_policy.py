"""Jobs that need not all of their indexes, with successPolicy: the scenarios of job-controller §37.11."""

from typing import Any

from tests.kit.scenario import World, flow

MATCHED = "Matched rules at index 0"
FAIL_JOB = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}


async def create(world: World, completions: int, *rules: dict[str, Any], **spec: Any) -> None:
    """Create an Indexed Job that runs all of its indexes at once unless told otherwise."""
    shape: dict[str, Any] = {"completionMode": "Indexed", "parallelism": completions, "completions": completions}
    await world.create(**shape | {"successPolicy": {"rules": rules}} | spec)


@flow()
async def test_index_that_matters_is_enough(world: World) -> None:
    # Row 114.
    # Nothing else may be made of the pod that goes then: it would be a failure too many.
    await create(world, 2, {"succeededIndexes": "1"}, backoffLimit=0)
    await world.until("A2")
    await world.succeed(*world.active(1))
    await world.ends("Complete", "SuccessPolicy", MATCHED)
    await world.until("S1", completed_indexes="1", made=2, there=1)


@flow()
async def test_one_success_may_be_enough(world: World) -> None:
    # Row 115.
    await create(world, 5, {"succeededCount": 1}, parallelism=1)
    await world.until("A1")
    await world.succeed(*world.active(0))
    await world.ends("Complete", "SuccessPolicy", MATCHED)
    await world.until("S1", completed_indexes="0", made=1)


@flow()
async def test_later_rule_may_be_the_one_that_is_met(world: World) -> None:
    # Rows 116 and 117: two of the indexes 3 to 6 would do, but the one that has succeeded is not enough.
    await create(world, 8, {"succeededIndexes": "3-6", "succeededCount": 2}, {"succeededIndexes": "0,7"})
    await world.until("A8")
    await world.succeed(*world.active(0), *world.active(3))
    await world.until("A6 S2", completed_indexes="0,3")
    await world.succeed(*world.active(7))
    await world.ends("Complete", "SuccessPolicy", "Matched rules at index 1")
    await world.until("S3", completed_indexes="0,3,7", made=8)


@flow()
async def test_policy_comes_before_the_completions(world: World) -> None:
    # Row 118.
    await create(world, 3, {"succeededIndexes": "0"})
    await world.until("A3")
    await world.crash()
    await world.succeed(*world.active())
    await world.start()
    await world.ends("Complete", "SuccessPolicy", MATCHED)
    await world.until("S3", completed_indexes="0-2", made=3)


@flow()
async def test_failure_comes_before_the_success_policy(world: World) -> None:
    # Row 119.
    await create(world, 2, {"succeededIndexes": "0"}, podFailurePolicy=FAIL_JOB)
    await world.until("A2")
    await world.crash()
    await world.succeed(*world.active(0))
    await world.fail(*world.active(1), exit_code=42)
    await world.start()
    await world.ends("Failed", "PodFailurePolicy")
    await world.until("S1 F1", completed_indexes="0")


@flow()
async def test_success_that_is_recorded_stands(world: World) -> None:
    # Row 120.
    await create(world, 2, {"succeededIndexes": "0"}, podFailurePolicy=FAIL_JOB, backoffLimit=0, held=True)
    await world.until("A2")
    (other,) = world.active(1)
    await world.succeed(*world.active(0))
    await world.interim("SuccessCriteriaMet", "SuccessPolicy")
    await world.until("S1 T1")
    await world.fail(other, exit_code=42)
    await world.ends("Complete", "SuccessPolicy", MATCHED)
    await world.until("S1", completed_indexes="0")


@flow()
async def test_failure_that_is_recorded_stands(world: World) -> None:
    # Row 121.
    await create(world, 2, {"succeededIndexes": "0"}, podFailurePolicy=FAIL_JOB, held=True)
    await world.until("A2")
    (other,) = world.active(0)
    await world.fail(*world.active(1), exit_code=42)
    await world.interim("FailureTarget", "PodFailurePolicy")
    await world.until(terminating=1)
    await world.succeed(other)
    await world.ends("Failed", "PodFailurePolicy")


@flow()
async def test_all_indexes_done_comes_before_the_success_policy(world: World) -> None:
    # Row 122.
    await create(world, 2, {"succeededCount": 1}, backoffLimitPerIndex=0)
    await world.until("A2")
    await world.fail(*world.active(0))
    await world.until("A1 F1", failed_indexes="0")
    await world.succeed(*world.active(1))
    await world.ends("Failed", "FailedIndexes", "Job has failed indexes")
    await world.until("S1 F1", failed_indexes="0", completed_indexes="1")
