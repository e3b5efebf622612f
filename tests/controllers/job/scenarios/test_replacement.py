"""When a pod that goes is replaced, with podReplacementPolicy: the last scenarios of job-controller §37.10."""

from tests.kit.scenario import Simulation, scenario


@scenario()
async def test_pods_are_replaced_while_they_go(sim: Simulation) -> None:
    # Row 110.
    await sim.create(parallelism=2, completions=2, podReplacementPolicy="TerminatingOrFailed", held=True)
    await sim.until("A2")
    old = sim.active()
    await sim.delete_pods(old)
    await sim.until("A2 F2 T2", made=4)
    await sim.fail(*old)
    await sim.until("A2 F2", made=4)
    await sim.stays("A2 F2")
    if sim.undisturbed:
        labels = {"reason": "recreate_terminating_or_failed", "status": "succeeded"}
        assert sim.counted("job_pods_creation", **labels) == 2


@scenario()
async def test_pods_are_replaced_when_they_have_failed(sim: Simulation) -> None:
    # Row 111.
    await sim.create(parallelism=2, completions=2, podReplacementPolicy="Failed", held=True)
    await sim.until("A2")
    old = sim.active()
    await sim.delete_pods(old)
    await sim.until("T2")
    await sim.stays("T2")
    await sim.fail(*old)
    await sim.until("A2 F2", made=4)
    await sim.stays("A2 F2")
    if sim.undisturbed:
        assert sim.counted("job_pods_creation", reason="recreate_failed", status="succeeded") == 2


@scenario()
async def test_index_of_a_pod_that_goes_is_taken(sim: Simulation) -> None:
    # Row 113: under the policy Failed.
    await sim.create(completionMode="Indexed", parallelism=2, completions=5, podReplacementPolicy="Failed", held=True)
    await sim.until("A2")
    await sim.delete_pods(sim.active(0))
    await sim.until("A1 T1")
    await sim.succeed(*sim.active(1))
    await sim.until("A1 T1 S1", completed_indexes="1")
    assert len(sim.active(2)) == 1


@scenario()
async def test_index_of_a_pod_that_goes_is_free(sim: Simulation) -> None:
    # Row 113: under the policy TerminatingOrFailed.
    await sim.create(
        completionMode="Indexed", parallelism=2, completions=5, podReplacementPolicy="TerminatingOrFailed", held=True
    )
    await sim.until("A2")
    await sim.delete_pods(sim.active(0))
    await sim.until("A2 F1 T1", made=3)
    assert len(sim.active(0)) == len(sim.active(1)) == 1
