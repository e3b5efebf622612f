"""Indexed Jobs that grow and shrink: the scenarios of job-controller §37.8."""

from typing import Any

from tests.kit.scenario import World, flow, index_of


def sized(size: int) -> dict[str, Any]:
    return {"parallelism": size, "completions": size}


@flow()
async def test_larger_job_runs_the_new_index(world: World) -> None:
    # Row 80.
    await world.create(completionMode="Indexed", **sized(3))
    await world.until("A3")
    await world.patch(**sized(4))
    await world.until("A4")
    await world.succeed(*world.active())
    await world.ends("Complete", "CompletionsReached")
    await world.until("S4", completed_indexes="0-3", made=4)


@flow()
async def test_smaller_job_forgets_its_high_indexes(world: World) -> None:
    # Row 81.
    await world.create(completionMode="Indexed", **sized(3))
    await world.until("A3")
    await world.succeed(*world.active(1))
    await world.fail(*world.active(2))
    await world.until("A2 S1 F1", completed_indexes="1")
    await world.patch(**sized(1))
    await world.until("A1 F1", completed_indexes="", there=3)
    assert [index_of(pod) for pod in world.active()] == [0]
    await world.succeed(*world.active())
    await world.ends("Complete", "CompletionsReached")
    await world.until("S1 F1", completed_indexes="0")


@flow()
async def test_forgotten_index_runs_again_when_wanted_again(world: World) -> None:
    # Rows 82 and 83.
    await world.create(completionMode="Indexed", **sized(3))
    await world.until("A3")
    await world.succeed(*world.active(2))
    await world.until("A2 S1", completed_indexes="2")
    await world.patch(**sized(2))
    await world.until("A2", completed_indexes="")
    await world.patch(**sized(3))
    await world.until("A3", completed_indexes="", made=4)
    await world.succeed(*world.active())
    await world.ends("Complete", "CompletionsReached")
    await world.until("S3", completed_indexes="0-2")


@flow()
async def test_job_without_indexes_is_complete(world: World) -> None:
    # Row 84.
    await world.create(completionMode="Indexed", **sized(3))
    await world.until("A3")
    await world.patch(**sized(0))
    await world.ends("Complete", "CompletionsReached")
    await world.until("", completed_indexes="", there=0, made=3)


@flow()
async def test_complete_waits_for_the_pod_that_goes(world: World) -> None:
    # Row 85.
    await world.create(completionMode="Indexed", held=True, **sized(2))
    await world.until("A2")
    first, second = sorted(world.active(), key=index_of)
    await world.succeed(first)
    await world.until("A1 S1", completed_indexes="0")
    await world.patch(**sized(1))
    await world.interim("SuccessCriteriaMet", "CompletionsReached")
    await world.until("S1 T1", completed_indexes="0")
    await world.clock.advance(60)
    await world.interim("SuccessCriteriaMet", "CompletionsReached")
    await world.release([second])
    await world.ends("Complete", "CompletionsReached")
    await world.until("S1", completed_indexes="0", made=2)
