"""The node with simulated containers, in virtual time."""

import msgspec
import pytest

from kcr.api.conditions import is_condition_true
from kcr.api.core import Event
from kcr.api.core import Node as NodeObject
from kcr.api.meta import Key
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import FOREVER, RunResult
from kcr_devcluster.cluster.node.pods import KubeletPod
from tests.kit.node_pods import History, create, delete, events, get, log, manifest, names, state

pytestmark = pytest.mark.kcr_virtual


def runs(cluster: EmbeddedCluster, *outcomes: RunResult) -> None:
    """Have each run go as the outcomes say, one after the other; the last holds for all that follow."""
    assert cluster.node is not None
    cluster.node.on_run = lambda pod, container, attempt: outcomes[min(attempt, len(outcomes) - 1)]


async def test_pod_goes_through_every_step(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, history: History
) -> None:
    runs(kcr_cluster, RunResult(run_for=5))
    await create(kcr_cluster.client, "a")
    await kcr_clock.advance(5)
    assert history.lines == [
        "Pending - -", "Pending - -", "Pending ContainerCreating 0", "Running running 0", "Succeeded Completed 0 0",
    ]  # fmt: skip
    pod = await get(kcr_cluster.client, "a")
    assert [c.type for c in pod.status.conditions] == [
        "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled",
    ]  # fmt: skip


async def test_resources_of_containers_are_reported(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    """Source: kubernetes/pkg/kubelet/kubelet_pods.go, convertToAPIContainerStatuses."""
    limited = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}
    containers = [
        {"name": "main", "image": "app:1", "command": ["run"], "resources": limited},
        {"name": "other", "image": "app:1", "command": ["run"]},
    ]
    made = await create(kcr_cluster.client, "a", containers=containers)
    await kcr_clock.advance(1)
    body = await kcr_cluster.client.request("GET", f"/api/v1/namespaces/default/pods/{made.metadata.name}")
    main, other = msgspec.json.decode(body)["status"]["containerStatuses"]
    requests = {"cpu": "1", "memory": "1Gi"}
    assert (main["resources"], main["allocatedResources"]) == ({**limited, "requests": requests}, requests)
    assert (other["resources"], "allocatedResources" in other) == ({}, False)


async def test_failing_run_is_shown_before_each_restart(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, history: History
) -> None:
    runs(kcr_cluster, RunResult(exit_code=1, run_for=30))
    await create(kcr_cluster.client, "a", policy="OnFailure")
    await kcr_clock.advance(3 * 30 + 30)
    assert history.lines[3:] == [
        "Running running 0", "Running Error 1 0",
        "Running running 1", "Running Error 1 1", "Running CrashLoopBackOff 1",
        "Running running 2", "Running Error 1 2", "Running CrashLoopBackOff 2",
        "Running running 3",
    ]  # fmt: skip


async def test_fourth_run_begins_after_three_runs_and_thirty_seconds(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    runs(kcr_cluster, RunResult(exit_code=1, run_for=20))
    await create(kcr_cluster.client, "a", policy="OnFailure")
    await kcr_clock.advance(89.9)
    assert (await get(kcr_cluster.client, "a")).status.container_statuses[0].restart_count == 2
    await kcr_clock.advance(0.1)
    assert (await get(kcr_cluster.client, "a")).status.container_statuses[0].restart_count == 3


async def test_success_after_a_failure_ends_the_pod(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    runs(kcr_cluster, RunResult(exit_code=1), RunResult(exit_code=0))
    await create(kcr_cluster.client, "a", policy="OnFailure")
    await kcr_clock.advance(1)
    pod = await get(kcr_cluster.client, "a")
    assert (pod.status.phase, state(pod)) == ("Succeeded", "Completed 0")
    last = pod.status.container_statuses[0].last_state.terminated
    assert last is not None and last.exit_code == 1


async def test_log_of_the_run_before_stays_readable(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    runs(kcr_cluster, RunResult(exit_code=1, logs="first\n"), RunResult(run_for=FOREVER, logs="second\n"))
    await create(kcr_cluster.client, "a", policy="OnFailure")
    await kcr_clock.advance(1)
    assert await log(kcr_cluster.client, "a") == "second\n"
    assert await log(kcr_cluster.client, "a", "?previous=true") == "first\n"


async def test_deleted_pod_ends_before_its_object_goes(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, history: History
) -> None:
    runs(kcr_cluster, RunResult(run_for=FOREVER))
    await create(kcr_cluster.client, "a")
    await kcr_clock.advance(5)
    await delete(kcr_cluster.client, "a")
    await kcr_clock.settle()
    # The last deletion, with no grace left, is a change of its own.
    ended = "Failed Error 143 0 leaving"
    assert history.lines[-4:] == ["Running running 0 leaving", ended, ended, "gone"]


async def test_container_that_ignores_the_signal_is_killed_after_its_grace(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, history: History
) -> None:
    runs(kcr_cluster, RunResult(run_for=FOREVER, ignore_sigterm=True))
    await create(kcr_cluster.client, "a", grace=30)
    await kcr_clock.advance(5)
    await delete(kcr_cluster.client, "a")
    await kcr_clock.advance(29.9)
    assert await names(kcr_cluster.client) == {"a"}
    await kcr_clock.advance(0.1)
    assert await names(kcr_cluster.client) == set()
    assert history.lines[-2] == "Failed Error 137 0 leaving"


async def test_second_deletion_may_shorten_the_grace(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    runs(kcr_cluster, RunResult(run_for=FOREVER, ignore_sigterm=True))
    await create(kcr_cluster.client, "a", grace=300)
    await kcr_clock.advance(5)
    await delete(kcr_cluster.client, "a")
    await kcr_clock.advance(5)
    await delete(kcr_cluster.client, "a", grace=2)
    await kcr_clock.advance(2)
    assert await names(kcr_cluster.client) == set()


async def test_pod_deleted_in_back_off_goes_at_once(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, history: History
) -> None:
    runs(kcr_cluster, RunResult(exit_code=1))
    await create(kcr_cluster.client, "a", policy="OnFailure")
    await kcr_clock.advance(5)
    await delete(kcr_cluster.client, "a")
    await kcr_clock.settle()
    assert history.lines[-2:] == ["Failed Error 1 1 leaving", "gone"]


async def test_forced_deletion_stops_silently(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, history: History
) -> None:
    runs(kcr_cluster, RunResult(run_for=FOREVER))
    await create(kcr_cluster.client, "a")
    await kcr_clock.advance(5)
    await delete(kcr_cluster.client, "a", grace=0)
    await kcr_clock.settle()
    assert history.lines[-3:] == ["Running running 0", "Running running 0 leaving", "gone"]


async def test_pod_with_a_finalizer_turns_terminal_and_stays(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    runs(kcr_cluster, RunResult(run_for=FOREVER))
    pod = await create(kcr_cluster.client, "a")
    await kcr_clock.advance(5)
    await kcr_cluster.client.merge_patch(KubeletPod, pod.key, {"metadata": {"finalizers": ["example.dev/hold"]}})
    await delete(kcr_cluster.client, "a")
    await kcr_clock.settle()
    assert (await get(kcr_cluster.client, "a")).status.phase == "Failed"
    await kcr_cluster.client.merge_patch(KubeletPod, pod.key, {"metadata": {"finalizers": None}})
    assert await names(kcr_cluster.client) == set()


async def test_pod_deleted_before_its_start_fails_and_goes(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, history: History
) -> None:
    runs(kcr_cluster, RunResult(start_delay=60))
    await create(kcr_cluster.client, "a")
    await kcr_clock.advance(5)
    await delete(kcr_cluster.client, "a")
    await kcr_clock.settle()
    assert history.lines[-2:] == ["Failed ContainerStatusUnknown 137 0 leaving", "gone"]


async def test_container_that_always_restarts_backs_off_after_success_too(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    runs(kcr_cluster, RunResult(run_for=1))
    await create(kcr_cluster.client, "a", policy="Always")
    await kcr_clock.advance(5)
    pod = await get(kcr_cluster.client, "a")
    assert (pod.status.phase, state(pod)) == ("Running", "CrashLoopBackOff")


async def test_node_object_says_that_it_is_ready(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await kcr_clock.advance(1)
    node = await kcr_cluster.client.get(NodeObject, Key("", "kcr-node-0"))
    assert is_condition_true(node.status.conditions, "Ready")
    assert node.metadata.labels["kubernetes.io/hostname"] == "kcr-node-0"
    assert node.metadata.annotations == {"kcr.dev/simulated": "true"}


async def test_ended_pod_goes_when_it_is_deleted(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    runs(kcr_cluster, RunResult())
    await create(kcr_cluster.client, "a")
    await kcr_clock.advance(1)
    await delete(kcr_cluster.client, "a")
    await kcr_clock.settle()
    assert await names(kcr_cluster.client) == set()


async def test_same_name_again_is_another_pod(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    runs(kcr_cluster, RunResult(run_for=FOREVER))
    await create(kcr_cluster.client, "a")
    await kcr_clock.advance(5)
    await delete(kcr_cluster.client, "a", grace=0)
    await create(kcr_cluster.client, "a")
    await kcr_clock.advance(5)
    pod = await get(kcr_cluster.client, "a")
    assert (pod.status.phase, pod.status.start_time) == ("Running", pod.metadata.creation_timestamp)


async def test_deadline_of_the_pod_ends_it(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    runs(kcr_cluster, RunResult(run_for=FOREVER))
    await create(kcr_cluster.client, "a", activeDeadlineSeconds=60)
    await kcr_clock.advance(59)
    assert (await get(kcr_cluster.client, "a")).status.phase == "Running"
    await kcr_clock.advance(1)
    pod = await get(kcr_cluster.client, "a")
    assert (pod.status.phase, pod.status.reason) == ("Failed", "DeadlineExceeded")
    assert state(pod) == "Error 143"


async def test_init_containers_run_one_by_one(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    runs(kcr_cluster, RunResult(run_for=10))
    inits = [{"name": "one", "image": "app:1"}, {"name": "two", "image": "app:1"}]
    await create(kcr_cluster.client, "a", initContainers=inits)
    await kcr_clock.advance(15)
    pod = await get(kcr_cluster.client, "a")
    assert [status.ready for status in pod.status.init_container_statuses] == [True, False]
    assert (pod.status.phase, state(pod)) == ("Pending", "PodInitializing")
    await kcr_clock.advance(15)
    assert (await get(kcr_cluster.client, "a")).status.phase == "Succeeded"


async def test_failed_init_container_fails_the_pod_under_never(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    assert kcr_cluster.node is not None
    kcr_cluster.node.on_run = lambda pod, container, attempt: RunResult(exit_code=1 if container == "one" else 0)
    await create(kcr_cluster.client, "a", initContainers=[{"name": "one", "image": "app:1"}])
    await kcr_clock.advance(1)
    pod = await get(kcr_cluster.client, "a")
    assert (pod.status.phase, state(pod)) == ("Failed", "PodInitializing")


async def test_sidecar_stops_when_the_others_have_ended(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    assert kcr_cluster.node is not None
    kcr_cluster.node.on_run = lambda pod, container, attempt: RunResult(run_for=FOREVER if container == "side" else 10)
    sidecar = {"name": "side", "image": "app:1", "restartPolicy": "Always"}
    await create(kcr_cluster.client, "a", initContainers=[sidecar])
    await kcr_clock.advance(9)
    assert (await get(kcr_cluster.client, "a")).status.phase == "Running"
    await kcr_clock.advance(1)
    pod = await get(kcr_cluster.client, "a")
    assert pod.status.phase == "Succeeded"
    assert pod.status.init_container_statuses[0].state.terminated is not None


async def test_sidecar_in_back_off_has_terminated_once_its_pod_has_ended(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    # Source: kubernetes/pkg/kubelet/status/status_manager.go, TerminatePod.
    assert kcr_cluster.node is not None
    crash, done = RunResult(exit_code=3, run_for=1), RunResult(run_for=8)
    kcr_cluster.node.on_run = lambda pod, container, attempt: crash if container == "side" else done
    sidecar = {"name": "side", "image": "app:1", "restartPolicy": "Always"}
    await create(kcr_cluster.client, "a", initContainers=[sidecar])
    await kcr_clock.advance(5)
    (side,) = (await get(kcr_cluster.client, "a")).status.init_container_statuses
    assert side.state.waiting is not None
    await kcr_clock.advance(5)
    pod = await get(kcr_cluster.client, "a")
    (side,) = pod.status.init_container_statuses
    assert (pod.status.phase, side.state.waiting) == ("Succeeded", None)
    assert side.state.terminated is not None
    assert (side.state.terminated.exit_code, side.restart_count) == (3, 1)


async def test_annotations_make_a_pod_slow_and_late(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    said = {"start-delay": "5s", "ready-after": "3s", "run-for": "20s", "exit-code": "7", "logs": "hello"}
    pod = manifest("a") | {
        "metadata": {"name": "a", "annotations": {f"sim.kcr.dev/{name}": text for name, text in said.items()}}
    }
    await kcr_cluster.client.create_manifest(KubeletPod, pod, "default")
    await kcr_clock.advance(4)
    assert state(await get(kcr_cluster.client, "a")) == "ContainerCreating"
    await kcr_clock.advance(2)
    assert not (await get(kcr_cluster.client, "a")).status.container_statuses[0].ready
    await kcr_clock.advance(3)
    assert (await get(kcr_cluster.client, "a")).status.container_statuses[0].ready
    await kcr_clock.advance(16)
    assert state(await get(kcr_cluster.client, "a")) == "Error 7"
    assert await log(kcr_cluster.client, "a") == "hello"


async def test_image_that_cannot_be_pulled_keeps_the_pod_pending(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    runs(kcr_cluster, RunResult(image_error="ErrImagePull"))
    await create(kcr_cluster.client, "a")
    await kcr_clock.advance(60)
    pod = await get(kcr_cluster.client, "a")
    assert (pod.status.phase, state(pod)) == ("Pending", "ErrImagePull")
    reason, count, message = (await events(kcr_cluster.client, "a"))[-1]
    assert (reason, message) == ("Failed", 'Error: image "app:1" cannot be pulled')
    assert count > 1


async def test_pod_that_fits_no_node_says_so(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await create(kcr_cluster.client, "a", nodeSelector={"disk": "ssd"})
    await kcr_clock.advance(5)
    condition = (await get(kcr_cluster.client, "a")).status.conditions[0]
    assert (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", "Unschedulable")


async def test_events_tell_the_story_of_a_pod(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    runs(kcr_cluster, RunResult(exit_code=1, run_for=1))
    await create(kcr_cluster.client, "a", policy="OnFailure")
    await kcr_clock.advance(3)
    await delete(kcr_cluster.client, "a", grace=0)
    await kcr_clock.settle()
    told = await events(kcr_cluster.client, "a")
    assert [(reason, count) for reason, count, _ in told] == [
        ("Scheduled", 1), ("Pulling", 1), ("Pulled", 1), ("Created", 2), ("Started", 2), ("Pulled", 1), ("BackOff", 1),
    ]  # fmt: skip


async def test_event_names_the_container_and_the_node(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    runs(kcr_cluster, RunResult())
    await create(kcr_cluster.client, "a")
    await kcr_clock.advance(1)
    (event,) = [event for event in await kcr_cluster.client.list(Event, "default") if event.reason == "Started"]
    assert event.involved_object.field_path == "spec.containers{main}"
    assert (event.source.component, event.source.host) == ("kubelet", "kcr-node-0")


@pytest.mark.soak
async def test_many_pods_run_side_by_side_with_own_addresses(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    runs(kcr_cluster, RunResult(run_for=3))
    for number in range(200):
        await create(kcr_cluster.client, f"p{number}")
    await kcr_clock.advance(3)
    pods = await kcr_cluster.client.list(KubeletPod, "default")
    assert {pod.status.phase for pod in pods} == {"Succeeded"}
    assert len({pod.status.pod_ip for pod in pods}) == 200


async def test_pods_wait_while_the_node_is_cordoned(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # api-server §27.2.
    async def cordon(unschedulable: bool) -> None:
        await kcr_clock.advance(1)
        await kcr_cluster.client.merge_patch(
            NodeObject, Key("", "kcr-node-0"), {"spec": {"unschedulable": unschedulable}}
        )
        await kcr_clock.advance(1)

    message = (
        "0/1 nodes are available: 1 node(s) were unschedulable. no new claims to deallocate, "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    await cordon(True)
    await create(kcr_cluster.client, "a")
    await create(kcr_cluster.client, "stray", nodeSelector={"kubernetes.io/hostname": "elsewhere"})
    await kcr_clock.advance(60)
    pod = await get(kcr_cluster.client, "a")
    assert (pod.spec.node_name, pod.status.phase) == ("", "Pending")
    assert [(c.type, c.status, c.reason, c.message) for c in pod.status.conditions] == [
        ("PodScheduled", "False", "Unschedulable", message)
    ]
    assert await events(kcr_cluster.client, "a") == [("FailedScheduling", 1, message)]
    await cordon(False)
    assert (await get(kcr_cluster.client, "a")).spec.node_name == "kcr-node-0"
    assert (await get(kcr_cluster.client, "stray")).spec.node_name == ""


async def test_cordoned_node_keeps_what_it_runs(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # api-server §27.2.
    runs(kcr_cluster, RunResult(run_for=60))
    await create(kcr_cluster.client, "a")
    await kcr_clock.advance(1)
    await kcr_cluster.client.merge_patch(NodeObject, Key("", "kcr-node-0"), {"spec": {"unschedulable": True}})
    await kcr_clock.advance(60)
    assert (await get(kcr_cluster.client, "a")).status.phase == "Succeeded"
