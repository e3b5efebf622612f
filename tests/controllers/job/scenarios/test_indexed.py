"""Jobs whose pods have an index each: the scenarios of job-controller §37.7."""

from tests.kit.scenario import Simulation, index_of, scenario

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


@scenario()
async def test_every_index_succeeds_once(sim: Simulation) -> None:
    # Rows 68 to 71.
    await sim.create(completionMode="Indexed", parallelism=3, completions=4, containers=CONTAINERS, pod=INIT)
    await sim.until("A3", made=3)
    assert sorted(map(index_of, sim.active())) == [0, 1, 2]
    for pod in sim.active():
        index, written = index_of(pod), await sim.read(pod)
        assert pod.metadata.labels[INDEX] == str(index)
        assert pod.metadata.name.startswith(f"pi-{index}-")
        assert written["spec"]["hostname"] == f"pi-{index}"
        for container in (*written["spec"]["containers"], *written["spec"]["initContainers"]):
            assert container["env"][-1] == VARIABLE
    await sim.succeed(*sim.active(1))
    job = await sim.until("A3 S1", completed_indexes="1")
    assert sorted(map(index_of, sim.active())) == [0, 2, 3]
    await sim.fail(*sim.active(2))
    await sim.until("A3 S1 F1", completed_indexes="1")
    assert sorted(map(index_of, sim.active())) == [0, 2, 3]
    await sim.succeed(*sim.active())
    job = await sim.ends("Complete", "CompletionsReached")
    await sim.until("S4 F1", completed_indexes="0-3", made=5, tracked=0)
    assert job.status.failed_indexes is None
    lists = [seen.status.uncounted_terminated_pods for seen in sim.jobs.history]
    assert not any(listed.succeeded for listed in lists if listed)


@scenario()
async def test_indexes_are_written_in_runs(sim: Simulation) -> None:
    # Row 72.
    await sim.create(completionMode="Indexed", parallelism=8, completions=8)
    await sim.until("A8")
    await sim.succeed(*(pod for pod in sim.active() if index_of(pod) in (1, 3, 4, 5, 7)))
    await sim.until("A3 S5", completed_indexes="1,3-5,7")


@scenario()
async def test_second_pod_of_an_index_is_removed(sim: Simulation) -> None:
    # Row 73.
    await sim.create(completionMode="Indexed", parallelism=3, completions=3)
    await sim.until("A3")
    await sim.crash()
    (pod,) = sim.active(2)
    await sim.copy(pod)
    await sim.bind(pod)
    await sim.ready(pod)
    await sim.start()
    await sim.until("A3 R1", there=3, made=4)
    assert [left.metadata.uid for left in sim.active(2)] == [pod.metadata.uid]


@scenario()
async def test_index_that_succeeds_twice_counts_once(sim: Simulation) -> None:
    # Row 74.
    await sim.create(completionMode="Indexed", parallelism=2, completions=2)
    await sim.until("A2")
    await sim.crash()
    await sim.copy(*sim.active(1))
    await sim.succeed(*sim.active(1))
    await sim.start()
    await sim.until("A1 S1", completed_indexes="1", there=3, tracked=1)
    await sim.succeed(*sim.active())
    await sim.ends("Complete", "CompletionsReached")
    await sim.until("S2", completed_indexes="0,1", tracked=0, made=3)


@scenario()
async def test_pod_without_a_valid_index_does_not_count(sim: Simulation) -> None:
    # Row 75: one that runs goes, one that has ended is let go.
    await sim.create(completionMode="Indexed", parallelism=1, completions=1)
    await sim.until("A1")
    (pod,) = sim.active()
    await sim.crash()
    for annotations in ({}, {INDEX: "7"}, {INDEX: "x"}):
        await sim.copy(pod, annotations=annotations)
        await sim.succeed(await sim.copy(pod, annotations=annotations))
        await sim.fail(await sim.copy(pod, annotations=annotations))
    await sim.start()
    await sim.until("A1", there=7, tracked=1)
    await sim.succeed(pod)
    await sim.ends("Complete", "CompletionsReached")
    await sim.until("S1", completed_indexes="0")


@scenario()
async def test_missing_index_comes_after_the_surplus_has_gone(sim: Simulation) -> None:
    # Row 77.
    await sim.create(completionMode="Indexed", parallelism=2, completions=2)
    await sim.until("A2")
    await sim.crash()
    await sim.copy(*sim.active(0))
    await sim.lose(*sim.active(1))
    await sim.start()
    await sim.until("A2", there=2)
    assert sorted(map(index_of, sim.active())) == [0, 1]
