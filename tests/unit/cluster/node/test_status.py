import msgspec

from kcr.api import codec
from kcr_devcluster.cluster.node.pod_state import PodState, Termination
from kcr_devcluster.cluster.node.pods import KubeletContainerStatus, KubeletPodStatus
from kcr_devcluster.cluster.node.status import pod_status, status_patch
from tests.kit.pod_states import WAITING, at, backing_off, ended, pod_state, running


def reported(pod: PodState, now: float = 10.0) -> KubeletPodStatus:
    return pod_status(pod, "127.0.0.1", at(now), now)


def conditions(status: KubeletPodStatus) -> dict[str, tuple[str, str, str]]:
    return {c.type: (c.status, c.reason, c.message) for c in status.conditions}


def main(status: KubeletPodStatus) -> KubeletContainerStatus:
    return status.container_statuses[0]


def test_accepted_pod_creates_its_container() -> None:
    status = reported(pod_state(WAITING))
    container = main(status)
    assert (status.phase, status.pod_ip, status.host_ip, status.start_time) == ("Pending", "", "127.0.0.1", at(0))
    assert container.state.waiting is not None and container.state.waiting.reason == "ContainerCreating"
    assert (container.ready, container.started, container.image, container.image_id) == (False, False, "x", "")
    assert conditions(status) == {
        "PodReadyToStartContainers": ("False", "", ""),
        "Initialized": ("True", "", ""),
        "Ready": ("False", "ContainersNotReady", "containers with unready status: [c0]"),
        "ContainersReady": ("False", "ContainersNotReady", "containers with unready status: [c0]"),
    }


def test_conditions_come_in_the_order_of_a_kubelet() -> None:
    order = [condition.type for condition in reported(pod_state(WAITING)).conditions]
    assert order == ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"]


def test_running_pod_has_address_and_all_conditions() -> None:
    status = reported(pod_state(running()))
    container = main(status)
    assert (status.phase, status.pod_ip) == ("Running", "10.0.0.1")
    assert (container.ready, container.started, container.container_id) == (True, True, "kcr://1")
    assert {said[0] for said in conditions(status).values()} == {"True"}


def test_main_containers_wait_for_init_containers() -> None:
    status = reported(pod_state(WAITING, inits=(running(), WAITING)))
    waiting = main(status).state.waiting
    assert waiting is not None and waiting.reason == "PodInitializing"
    assert conditions(status)["Initialized"] == (
        "False", "ContainersNotInitialized", "containers with incomplete status: [i0 i1]",
    )  # fmt: skip
    assert [container.name for container in status.init_container_statuses] == ["i0", "i1"]


def test_succeeded_pod_says_completed_everywhere() -> None:
    status = reported(pod_state(ended(0)))
    container = main(status)
    assert container.state.terminated is not None and container.state.terminated.reason == "Completed"
    assert (container.ready, container.started) == (False, False)
    assert conditions(status) == {
        "PodReadyToStartContainers": ("False", "", ""),
        "Initialized": ("True", "PodCompleted", ""),
        "Ready": ("False", "PodCompleted", ""),
        "ContainersReady": ("False", "PodCompleted", ""),
    }


def test_failed_pod_says_failed_in_both_readiness_conditions() -> None:
    said = conditions(reported(pod_state(ended(3), policy="Never")))
    assert said["Ready"] == said["ContainersReady"] == ("False", "PodFailed", "")


def test_end_before_a_restart_leaves_the_last_state_alone() -> None:
    container = main(reported(pod_state(ended(1, restart_at=20))))
    assert container.state.terminated is not None
    assert container.last_state.terminated is None
    assert container.restart_count == 0


def test_backing_off_moves_the_end_to_the_last_state() -> None:
    pod = pod_state(backing_off(20))
    pod.containers["c0"] = pod.containers["c0"]._replace(backoff_seconds=80.0)
    container = main(reported(pod))
    assert container.state.waiting is not None
    assert container.state.waiting.reason == "CrashLoopBackOff"
    assert container.state.waiting.message == "back-off 1m20s restarting failed container=c0 pod=p_ns(u)"
    assert container.last_state.terminated is not None


def test_container_is_ready_only_after_its_time() -> None:
    pod = pod_state(running(ready_at=12))
    assert not main(reported(pod, 11)).ready
    assert main(reported(pod, 12)).ready


def test_change_of_status_alone_moves_the_transition_time() -> None:
    pod = pod_state(WAITING)
    pod.written_status = reported(pod, 1.5)
    pod.containers["c0"] = pod.containers["c0"]._replace(state=running())
    times = {c.type: c.last_transition_time for c in reported(pod, 7.9).conditions}
    assert times == {
        "PodReadyToStartContainers": at(7), "Initialized": at(1), "Ready": at(7), "ContainersReady": at(7),
    }  # fmt: skip


def test_pod_stopped_before_its_start_has_a_lost_container() -> None:
    pod = pod_state(WAITING)
    pod.termination = Termination(0)
    status = reported(pod)
    end = main(status).state.terminated
    assert status.phase == "Failed"
    assert end is not None and (end.exit_code, end.reason) == (137, "ContainerStatusUnknown")


def test_reason_of_a_forced_end_comes_with_the_final_phase() -> None:
    pod = pod_state(running())
    pod.termination = Termination(50, "DeadlineExceeded", "too long")
    assert reported(pod).reason == ""
    pod.containers["c0"] = pod.containers["c0"]._replace(state=ended(137))
    status = reported(pod)
    assert (status.phase, status.reason, status.message) == ("Failed", "DeadlineExceeded", "too long")


def test_patch_names_the_uid_and_clears_what_is_no_longer_said() -> None:
    patch = msgspec.json.decode(codec.encode(status_patch(None, reported(pod_state(running())), "u")))
    assert patch["metadata"] == {"uid": "u"}
    ready = next(c for c in patch["status"]["conditions"] if c["type"] == "Ready")
    assert ready["reason"] is None and ready["message"] is None
    assert "reason" not in patch["status"]
    assert patch["status"]["hostIPs"] == [{"ip": "127.0.0.1"}]


def test_patch_carries_only_what_has_changed() -> None:
    pod = pod_state(running())
    before = reported(pod)
    pod.containers["c0"] = pod.containers["c0"]._replace(restart_count=1)
    assert set(msgspec.json.decode(codec.encode(status_patch(before, reported(pod), "u")))["status"]) == {
        "containerStatuses"
    }
