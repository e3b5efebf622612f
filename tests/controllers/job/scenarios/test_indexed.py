"""Jobs whose pods have an index each: the scenarios of job-controller §37.7."""

from tests.kit.scenario import World, flow, index_of

INDEX = "batch.kubernetes.io/job-completion-index"
CONTAINERS = [
    {"name": "c", "image": "busybox"},
    {"name": "d", "image": "busybox", "env": [{"name": "A", "value": "b"}]},
]
INIT = {"initContainers": [{"name": "i", "image": "busybox"}]}
VARIABLE = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}},
}


@flow()
async def test_every_index_succeeds_once(world: World) -> None:
    # Rows 68 to 71.
    await world.create(completionMode="Indexed", parallelism=3, completions=4, containers=CONTAINERS, pod=INIT)
    await world.until("A3", made=3)
    assert sorted(map(index_of, world.active())) == [0, 1, 2]
    for pod in world.active():
        index, written = index_of(pod), await world.read(pod)
        assert pod.metadata.labels[INDEX] == str(index)
        assert pod.metadata.name.startswith(f"pi-{index}-")
        assert written["spec"]["hostname"] == f"pi-{index}"
        for container in (*written["spec"]["containers"], *written["spec"]["initContainers"]):
            assert container["env"][-1] == VARIABLE
    await world.succeed(*world.active(1))
    job = await world.until("A3 S1", completed_indexes="1")
    assert sorted(map(index_of, world.active())) == [0, 2, 3]
    await world.fail(*world.active(2))
    await world.until("A3 S1 F1", completed_indexes="1")
    assert sorted(map(index_of, world.active())) == [0, 2, 3]
    await world.succeed(*world.active())
    job = await world.ends("Complete", "CompletionsReached")
    await world.until("S4 F1", completed_indexes="0-3", made=5, tracked=0)
    assert job.status.failed_indexes is None
    lists = [seen.status.uncounted_terminated_pods for seen in world.jobs.history]
    assert not any(listed.succeeded for listed in lists if listed)


@flow()
async def test_indexes_are_written_in_runs(world: World) -> None:
    # Row 72.
    await world.create(completionMode="Indexed", parallelism=8, completions=8)
    await world.until("A8")
    await world.succeed(*(pod for pod in world.active() if index_of(pod) in (1, 3, 4, 5, 7)))
    await world.until("A3 S5", completed_indexes="1,3-5,7")


@flow()
async def test_second_pod_of_an_index_is_removed(world: World) -> None:
    # Row 73.
    await world.create(completionMode="Indexed", parallelism=3, completions=3)
    await world.until("A3")
    await world.crash()
    (pod,) = world.active(2)
    await world.copy(pod)
    await world.bind(pod)
    await world.ready(pod)
    await world.start()
    await world.until("A3 R1", there=3, made=4)
    assert [left.metadata.uid for left in world.active(2)] == [pod.metadata.uid]


@flow()
async def test_index_that_succeeds_twice_counts_once(world: World) -> None:
    # Row 74.
    await world.create(completionMode="Indexed", parallelism=2, completions=2)
    await world.until("A2")
    await world.crash()
    await world.copy(*world.active(1))
    await world.succeed(*world.active(1))
    await world.start()
    await world.until("A1 S1", completed_indexes="1", there=3, tracked=1)
    await world.succeed(*world.active())
    await world.ends("Complete", "CompletionsReached")
    await world.until("S2", completed_indexes="0,1", tracked=0, made=3)


@flow()
async def test_pod_without_a_valid_index_does_not_count(world: World) -> None:
    # Row 75: one that runs goes, one that has ended is let go.
    await world.create(completionMode="Indexed", parallelism=1, completions=1)
    await world.until("A1")
    (pod,) = world.active()
    await world.crash()
    for annotations in ({}, {INDEX: "7"}, {INDEX: "x"}):
        await world.copy(pod, annotations=annotations)
        await world.succeed(await world.copy(pod, annotations=annotations))
        await world.fail(await world.copy(pod, annotations=annotations))
    await world.start()
    await world.until("A1", there=7, tracked=1)
    await world.succeed(pod)
    await world.ends("Complete", "CompletionsReached")
    await world.until("S1", completed_indexes="0")


@flow()
async def test_missing_index_comes_after_the_surplus_has_gone(world: World) -> None:
    # Row 77.
    await world.create(completionMode="Indexed", parallelism=2, completions=2)
    await world.until("A2")
    await world.crash()
    await world.copy(*world.active(0))
    await world.lose(*world.active(1))
    await world.start()
    await world.until("A2", there=2)
    assert sorted(map(index_of, world.active())) == [0, 1]
