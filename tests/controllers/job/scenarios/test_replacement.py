"""When a pod that goes is replaced, with podReplacementPolicy: the last scenarios of job-controller §37.10."""

from tests.kit.scenario import World, flow


@flow()
async def test_pods_are_replaced_while_they_go(world: World) -> None:
    # Row 110.
    await world.create(parallelism=2, completions=2, podReplacementPolicy="TerminatingOrFailed", held=True)
    await world.until("A2")
    old = world.active()
    await world.delete_pods(old)
    await world.until("A2 F2 T2", made=4)
    await world.fail(*old)
    await world.until("A2 F2", made=4)
    await world.stays("A2 F2")
    if world.undisturbed:
        labels = {"reason": "recreate_terminating_or_failed", "status": "succeeded"}
        assert world.counted("job_pods_creation", **labels) == 2


@flow()
async def test_pods_are_replaced_when_they_have_failed(world: World) -> None:
    # Row 111.
    await world.create(parallelism=2, completions=2, podReplacementPolicy="Failed", held=True)
    await world.until("A2")
    old = world.active()
    await world.delete_pods(old)
    await world.until("T2")
    await world.stays("T2")
    await world.fail(*old)
    await world.until("A2 F2", made=4)
    await world.stays("A2 F2")
    if world.undisturbed:
        assert world.counted("job_pods_creation", reason="recreate_failed", status="succeeded") == 2


@flow()
async def test_index_of_a_pod_that_goes_is_taken(world: World) -> None:
    # Row 113: under the policy Failed.
    await world.create(completionMode="Indexed", parallelism=2, completions=5, podReplacementPolicy="Failed", held=True)
    await world.until("A2")
    await world.delete_pods(world.active(0))
    await world.until("A1 T1")
    await world.succeed(*world.active(1))
    await world.until("A1 T1 S1", completed_indexes="1")
    assert len(world.active(2)) == 1


@flow()
async def test_index_of_a_pod_that_goes_is_free(world: World) -> None:
    # Row 113: under the policy TerminatingOrFailed.
    await world.create(
        completionMode="Indexed", parallelism=2, completions=5, podReplacementPolicy="TerminatingOrFailed", held=True
    )
    await world.until("A2")
    await world.delete_pods(world.active(0))
    await world.until("A2 F1 T1", made=3)
    assert len(world.active(0)) == len(world.active(1)) == 1
