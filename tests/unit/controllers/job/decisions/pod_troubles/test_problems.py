"""What holds pods up: probes, volumes, gates, nodes, and containers that crash."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from kcr.api import codec
from kcr.api.core import Event, Node, NodeSpec, NodeStatus, ObjectReference
from kcr.api.meta import Condition, ObjectMeta
from kcr.controllers.job.decisions.pod_troubles.problems import (
    DetailedPod,
    PodContext,
    problem_of,
    restarts_of,
    unready_of,
)
from tests.kit.builders import NOW

UID = "uid-web"


def moment(seconds_ago: float) -> str:
    return (NOW - timedelta(seconds=seconds_ago)).isoformat().replace("+00:00", "Z")


def pod(
    *states: dict[str, Any], node: str = "n1", phase: str = "Running", why: Mapping[str, str] = {}, **conditions: str
) -> DetailedPod:
    """A pod of containers a, b… with these states; conditions by type, each since 90 s, and what all of them say."""
    since = {"lastTransitionTime": moment(90), **why}
    listed = [{"type": kind, "status": status, **since} for kind, status in conditions.items()]
    containers = [{"name": chr(ord("a") + place), "ready": False, **state} for place, state in enumerate(states)]
    made = {
        "metadata": {"name": "web", "namespace": "shop", "uid": UID, "creationTimestamp": moment(300)},
        "spec": {"nodeName": node},
        "status": {"phase": phase, "conditions": listed, "containerStatuses": containers},
    }
    return codec.decode(DetailedPod, codec.encode(made))


def ended(code: int, reason: str = "Error", seconds_ago: float = 5, **fields: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": moment(seconds_ago), **fields}}


def crashed(last: dict[str, Any], restarts: int = 3) -> dict[str, Any]:
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container=a pod=web_shop(uid)"}
    return {"state": {"waiting": waiting}, "lastState": last, "restartCount": restarts}


def running(last: dict[str, Any], restarts: int = 1) -> dict[str, Any]:
    return {"state": {"running": {"startedAt": moment(1)}}, "lastState": last, "restartCount": restarts}


def warning(reason: str, message: str, container: str = "") -> Event:
    path = f"spec.containers{{{container}}}" if container else ""
    return Event(
        reason=reason, message=message, type="Warning", involved_object=ObjectReference(uid=UID, field_path=path)
    )


def node(ready: str = "True", *, cordoned: bool = False) -> Node:
    condition = Condition(type="Ready", status=ready, last_transition_time=NOW - timedelta(seconds=60))
    return Node(
        metadata=ObjectMeta(name="n1"),
        spec=NodeSpec(unschedulable=cordoned),
        status=NodeStatus(conditions=(condition,)),
    )


@pytest.mark.parametrize(
    ("container", "clause", "text"),
    [
        pytest.param(
            crashed(ended(3)), "whose container crashes again and again: exit code 3",
            "pod web: container a ended 5s ago with exit code 3; it waits (restarted 3 times): CrashLoopBackOff: "
            "back-off 40s restarting failed container=a", id="exit-code",
        ),
        pytest.param(
            crashed(ended(139)), "whose container crashes again and again: exit code 139",
            "pod web: container a ended 5s ago with exit code 139 (SIGSEGV); it waits (restarted 3 times): "
            "CrashLoopBackOff: back-off 40s restarting failed container=a", id="signal",
        ),
        pytest.param(
            crashed(ended(137, "OOMKilled"), 1), "whose container runs out of memory",
            "pod web: container a ended 5s ago with exit code 137 (SIGKILL), OOMKilled; it waits (restarted once): "
            "CrashLoopBackOff: back-off 40s restarting failed container=a", id="memory",
        ),
        pytest.param(
            crashed(ended(1), 1), "whose container crashed: exit code 1",
            "pod web: container a ended 5s ago with exit code 1; it waits (restarted once): CrashLoopBackOff: back-off "
            "40s restarting failed container=a", id="once",
        ),
        pytest.param(
            {"state": {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "a" not found'}}},
            "whose container lacks its configuration",
            'pod web: container a waits: CreateContainerConfigError: secret "a" not found', id="configuration",
        ),
        pytest.param(
            {"state": {"waiting": {"reason": "Strange"}}}, "that cannot start (Strange)",
            "pod web: container a waits: Strange", id="unknown",
        ),
    ],
)  # fmt: skip
def test_waiting_container_is_a_trouble(container: dict[str, Any], clause: str, text: str) -> None:
    found = problem_of(pod(container), PodContext(), NOW)
    assert found is not None
    assert (found.symptom.clause, found.text) == (clause, text)


def test_container_that_is_created_is_no_trouble() -> None:
    creating = {"state": {"waiting": {"reason": "ContainerCreating"}}}
    assert problem_of(pod(creating), PodContext(), NOW) is None
    late = problem_of(pod(creating, phase="Pending"), PodContext(), NOW)
    assert late is not None
    assert late.text == "pod web has not started on n1 yet, after 5m"
    mount = warning("FailedMount", 'secret "a" not found')
    found = problem_of(pod(creating, phase="Pending"), PodContext([mount]), NOW)
    assert found is not None
    assert (found.symptom.statement, found.text) == (
        "its volumes cannot be mounted", 'pod web has not started: FailedMount: secret "a" not found',
    )  # fmt: skip


def test_logs_name_the_container_among_several() -> None:
    alone = problem_of(pod(crashed(ended(3))), PodContext(), NOW)
    both = problem_of(pod(running({}, 0), crashed(ended(3))), PodContext(), NOW)
    assert alone is not None
    assert both is not None
    assert alone.remedies == ("see the output of its last run: kubectl -n shop logs web -p",)
    assert both.remedies == ("see the output of its last run: kubectl -n shop logs web -c b -p",)


def test_liveness_probe_is_named_as_the_cause() -> None:
    killed = PodContext([warning("Unhealthy", "Liveness probe failed: no", "a")])
    found = problem_of(pod(crashed(ended(143))), killed, NOW)
    assert found is not None
    assert found.symptom.statement == "its container fails its liveness probe and is restarted"


@pytest.mark.parametrize(
    ("container", "is_told"),
    [
        (running(ended(3)), True),
        (running(ended(0)), False),
        (running(ended(0, "OOMKilled")), True),
        (running(ended(3, seconds_ago=61)), False),
        (running(ended(3, seconds_ago=61), restarts=2), True),
        (running(ended(3, seconds_ago=601), restarts=2), False),
        (running(ended(3), restarts=0), False),
        (running({}), False),
    ],
)
def test_crash_of_late_is_told_of_a_running_container(container: dict[str, Any], is_told: bool) -> None:
    found = restarts_of(pod(container), PodContext(), NOW)
    assert (found is not None) is is_told


def test_readiness_probe_that_fails_is_named() -> None:
    failing = PodContext([warning("Unhealthy", "Readiness probe failed: HTTP 500", "a")])
    found = unready_of(pod(running({}, 0), Ready="False"), failing, NOW)
    assert found is not None
    assert found.symptom.statement == "its readiness probe fails (container a)"
    assert found.text == "pod web has not been ready for 90s: Readiness probe failed: HTTP 500"
    silent = unready_of(pod(running({}, 0), Ready="False"), PodContext(), NOW)
    assert silent is not None
    assert (silent.symptom.statement, silent.text) == (
        "its containers are not ready",
        "pod web has not been ready for 90s",
    )


def test_pod_that_is_ready_or_pending_has_no_probe_to_fail() -> None:
    assert unready_of(pod(running({}, 0), Ready="True"), PodContext(), NOW) is None
    assert unready_of(pod(running({}, 0), phase="Pending", Ready="False"), PodContext(), NOW) is None


@pytest.mark.parametrize(
    ("nodes", "statement"),
    [
        ({"n1": None}, "its node n1 is deleted"),
        ({"n1": node("Unknown")}, "its node n1 is silent"),
        ({"n1": node("False")}, None),
        ({"n1": node()}, None),
        ({"n2": None}, None),
        ({}, None),
    ],
)
def test_lost_node_goes_before_its_containers(nodes: dict[str, Node | None], statement: str | None) -> None:
    found = problem_of(pod(running({}, 0)), PodContext(nodes=nodes), NOW)
    assert (None if found is None else found.symptom.statement) == statement


SOME = "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu."
ALL = "0/1 nodes are available: 1 node(s) were unschedulable."
FREE = "add or free a node that fits; the pod is scheduled by itself then; or create the pod anew with lower demands"


@pytest.mark.parametrize(
    ("message", "statement", "remedies"),
    [
        (ALL, "cannot be scheduled: node n1 is cordoned", ("let n1 take pods again: kubectl uncordon n1",)),
        (SOME, "cannot be scheduled: node n1 is cordoned", ("let n1 take pods again: kubectl uncordon n1", FREE)),
        ("0/1 nodes are available: 1 Insufficient cpu.", "cannot be scheduled", (FREE,)),
        (
            "no nodes available to schedule pods", "cannot be scheduled: there is no node",
            ("add a node; the pod is scheduled by itself then",),
        ),
    ],
)  # fmt: skip
def test_cordoned_node_is_named_where_it_is_the_cause(message: str, statement: str, remedies: tuple[str, ...]) -> None:
    why = {"reason": "Unschedulable", "message": message}
    made = pod(node="", phase="Pending", why=why, PodScheduled="False")
    found = problem_of(made, PodContext(nodes={"n1": node(cordoned=True)}), NOW)
    assert found is not None
    assert (found.symptom.statement, found.remedies) == (statement, remedies)
