"""The STATUS of pods. Source: kubernetes/pkg/printers/internalversion/printers_test.go, TestPrintPod."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kcr_devcluster.apiserver.http.printers.pods import pod_cells, pod_status

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


def waiting(reason: str) -> dict[str, Any]:
    return {"waiting": {"reason": reason}}


def ended(code: int, reason: str = "", **more: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, **more}}


def report(state: dict[str, Any], name: str = "c", **more: Any) -> dict[str, Any]:
    return {"name": name, "state": state, "restartCount": 0, "ready": False, **more}


def pod(phase: str, *containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **more: Any) -> dict[str, Any]:
    status = {
        "phase": phase, "containerStatuses": list(containers), "initContainerStatuses": list(init),
        **more.pop("status", {}),
    }  # fmt: skip
    spec: dict[str, Any] = {"containers": [{"name": "c"}], "initContainers": [{"name": one["name"]} for one in init]}
    metadata = {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z", **more.pop("metadata", {})}
    return {"metadata": metadata, "spec": {**spec, **more}, "status": status}


DELETED = {"deletionTimestamp": "2026-01-01T00:30:00Z"}
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        pytest.param(pod("Pending"), "Pending", id="pending"),
        pytest.param(pod("Running", report(RUNNING, ready=True)), "Running", id="running"),
        pytest.param(pod("Pending", report(waiting("ContainerCreating"))), "ContainerCreating", id="creating"),
        pytest.param(pod("Running", report(waiting("CrashLoopBackOff"))), "CrashLoopBackOff", id="crash-loop"),
        pytest.param(pod("Succeeded", report(ended(0, "Completed"))), "Completed", id="completed"),
        pytest.param(pod("Failed", report(ended(1, "Error"))), "Error", id="error"),
        pytest.param(pod("Failed", report(ended(3))), "ExitCode:3", id="exit-code"),
        pytest.param(pod("Failed", report(ended(137, signal=9))), "Signal:9", id="signal"),
        pytest.param(pod("Failed", status={"reason": "Evicted"}), "Evicted", id="reason-of-the-pod"),
        pytest.param(
            pod("Pending", status={"conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
            "SchedulingGated", id="gated",
        ),
        pytest.param(
            pod("Pending", report(waiting("PodInitializing")), init=(report(RUNNING, "i"), report({}, "j"))),
            "Init:0/2", id="first-init",
        ),
        pytest.param(
            pod("Pending", init=(report(ended(0, "Completed"), "i"), report(waiting("PodInitializing"), "j"))),
            "Init:1/2", id="second-init",
        ),
        pytest.param(pod("Pending", init=(report(waiting("ErrPull"), "i"),)), "Init:ErrPull", id="init-waits"),
        pytest.param(pod("Failed", init=(report(ended(1, "Error"), "i"),)), "Init:Error", id="init-failed"),
        pytest.param(pod("Failed", init=(report(ended(5), "i"),)), "Init:ExitCode:5", id="init-exit-code"),
        pytest.param(
            pod("Running", report(ended(0, "Completed")), report(RUNNING, "d", ready=True), status=READY),
            "Running", id="one-completed-one-runs",
        ),
        pytest.param(
            pod("Running", report(ended(0, "Completed")), report(RUNNING, "d", ready=True)), "NotReady", id="not-ready"
        ),
        pytest.param(pod("Running", report(RUNNING, ready=True), metadata=DELETED), "Terminating", id="terminating"),
        pytest.param(pod("Failed", report(ended(1, "Error")), metadata=DELETED), "Error", id="terminating-but-failed"),
        pytest.param(pod("Running", status={"reason": "NodeLost"}, metadata=DELETED), "Unknown", id="node-lost"),
    ],
)  # fmt: skip
def test_status_is_the_word_of_kubectl(obj: dict[str, Any], expected: str) -> None:
    assert pod_status(obj) == expected


def test_restarts_tell_when_the_last_one_was() -> None:
    last = {"lastState": {"terminated": {"finishedAt": "2026-01-01T00:58:20Z"}}, "restartCount": 2}
    cells = pod_cells(pod("Running", report(RUNNING, ready=True) | last), NOW)
    assert cells == ["p", "1/1", "Running", "2 (100s ago)", "60m", "<none>", "<none>", "<none>", "<none>"]


def test_sidecar_counts_among_the_containers() -> None:
    obj = pod("Running", report(RUNNING, ready=True), init=(report(RUNNING, "s", ready=True, started=True),))
    obj["spec"]["initContainers"] = [{"name": "s", "restartPolicy": "Always"}]
    assert pod_cells(obj, NOW)[1:3] == ["2/2", "Running"]
