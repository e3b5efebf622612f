"""Indexed Jobs that grow and shrink: the scenarios of job-controller §37.8."""

from typing import Any

from tests.kit.scenario import Simulation, index_of, scenario


def sized(size: int) -> dict[str, Any]:
    return {"parallelism": size, "completions": size}


@scenario()
async def test_larger_job_runs_the_new_index(sim: Simulation) -> None:
    # Row 80.
    await sim.create(completionMode="Indexed", **sized(3))
    await sim.until("A3")
    await sim.patch(**sized(4))
    await sim.until("A4")
    await sim.succeed(*sim.active())
    await sim.ends("Complete", "CompletionsReached")
    await sim.until("S4", completed_indexes="0-3", made=4)


@scenario()
async def test_smaller_job_forgets_its_high_indexes(sim: Simulation) -> None:
    # Row 81.
    await sim.create(completionMode="Indexed", **sized(3))
    await sim.until("A3")
    await sim.succeed(*sim.active(1))
    await sim.fail(*sim.active(2))
    await sim.until("A2 S1 F1", completed_indexes="1")
    await sim.patch(**sized(1))
    await sim.until("A1 F1", completed_indexes="", there=3)
    assert [index_of(pod) for pod in sim.active()] == [0]
    await sim.succeed(*sim.active())
    await sim.ends("Complete", "CompletionsReached")
    await sim.until("S1 F1", completed_indexes="0")


@scenario()
async def test_forgotten_index_runs_again_when_wanted_again(sim: Simulation) -> None:
    # Rows 82 and 83.
    await sim.create(completionMode="Indexed", **sized(3))
    await sim.until("A3")
    await sim.succeed(*sim.active(2))
    await sim.until("A2 S1", completed_indexes="2")
    await sim.patch(**sized(2))
    await sim.until("A2", completed_indexes="")
    await sim.patch(**sized(3))
    await sim.until("A3", completed_indexes="", made=4)
    await sim.succeed(*sim.active())
    await sim.ends("Complete", "CompletionsReached")
    await sim.until("S3", completed_indexes="0-2")


@scenario()
async def test_job_without_indexes_is_complete(sim: Simulation) -> None:
    # Row 84.
    await sim.create(completionMode="Indexed", **sized(3))
    await sim.until("A3")
    await sim.patch(**sized(0))
    await sim.ends("Complete", "CompletionsReached")
    await sim.until("", completed_indexes="", there=0, made=3)


@scenario()
async def test_complete_waits_for_the_pod_that_goes(sim: Simulation) -> None:
    # Row 85.
    await sim.create(completionMode="Indexed", held=True, **sized(2))
    await sim.until("A2")
    first, second = sorted(sim.active(), key=index_of)
    await sim.succeed(first)
    await sim.until("A1 S1", completed_indexes="0")
    await sim.patch(**sized(1))
    await sim.interim("SuccessCriteriaMet", "CompletionsReached")
    await sim.until("S1 T1", completed_indexes="0")
    await sim.clock.advance(60)
    await sim.interim("SuccessCriteriaMet", "CompletionsReached")
    await sim.release([second])
    await sim.ends("Complete", "CompletionsReached")
    await sim.until("S1", completed_indexes="0", made=2)
