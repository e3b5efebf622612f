from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kcr.api import codec
from kcr.api.full.core_v1 import Taint, Toleration
from kcr.api.meta import Condition
from kcr_devcluster.cluster.node_lifecycle.health import silent_conditions, wanted_taints
from kcr_devcluster.cluster.node_lifecycle.taint_eviction import toleration_time
from kcr_devcluster.cluster.scheduling.objects import ScheduledNode

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


def node(
    ready: str = "True", *taints: tuple[str, str], unschedulable: bool = False, **conditions: str
) -> ScheduledNode:
    spec = {"taints": [{"key": key, "effect": effect} for key, effect in taints], "unschedulable": unschedulable}
    found = [{"type": kind, "status": status} for kind, status in ({"Ready": ready} | conditions).items()]
    manifest = {"metadata": {"name": "n"}, "spec": spec, "status": {"conditions": found}}
    return codec.decode(ScheduledNode, codec.encode(manifest))


@pytest.mark.parametrize(
    ("before", "taints"),
    [
        pytest.param(node(), set(), id="well"),
        pytest.param(node("False"), {(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")}, id="not-ready"),
        pytest.param(node("Unknown"), {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}, id="silent"),
        pytest.param(
            node("Unknown", (NOT_READY, "NoExecute")), {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")},
            id="one-replaces-the-other",
        ),
        pytest.param(node("True", (UNREACHABLE, "NoExecute"), ("own", "NoExecute")), {("own", "NoExecute")}, id="back"),
        pytest.param(
            node(unschedulable=True), {("node.kubernetes.io/unschedulable", "NoSchedule")}, id="cordoned"
        ),
        pytest.param(node("True", ("node.kubernetes.io/unschedulable", "NoSchedule")), set(), id="uncordoned"),
        pytest.param(
            node(MemoryPressure="True"), {("node.kubernetes.io/memory-pressure", "NoSchedule")}, id="memory-pressure"
        ),
    ],
)  # fmt: skip
def test_taints_follow_from_conditions(before: ScheduledNode, taints: set[tuple[str, str]]) -> None:
    # kubernetes/pkg/controller/nodelifecycle/node_lifecycle_controller.go, nodeConditionToTaintKeyStatusMap
    assert {(one.key, one.effect) for one in wanted_taints(before, NOW)} == taints


def test_taints_that_are_there_stay_as_they_are() -> None:
    tainted = node("Unknown", (UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute"))
    assert wanted_taints(tainted, NOW) == tainted.spec.taints


def test_what_a_silent_kubelet_says_is_unknown() -> None:
    ready = Condition(type="Ready", status="True", reason="KubeletReady", message="m")
    disk = Condition(type="DiskPressure", status="Unknown", reason="NodeStatusUnknown")
    found = {one.type: one for one in silent_conditions((ready, disk), NOW)}
    assert set(found) == {"Ready", "MemoryPressure", "PIDPressure"}
    assert (found["Ready"].status, found["Ready"].reason) == ("Unknown", "NodeStatusUnknown")
    assert found["Ready"].message == "Kubelet stopped posting node status."
    assert found["PIDPressure"].message == "Kubelet never posted node status."


@pytest.mark.parametrize(
    ("tolerations", "seconds"),
    [
        pytest.param([], 0, id="none"),
        pytest.param([{"operator": "Exists"}], None, id="for-ever"),
        pytest.param([{"key": "a", "operator": "Exists"}], 0, id="one-of-two"),
        pytest.param(
            [{"key": "a", "operator": "Exists", "toleration_seconds": 60}, {"operator": "Exists"}], 60, id="shortest"
        ),
        pytest.param([{"operator": "Exists", "toleration_seconds": -1}], 0, id="negative"),
    ],
)
def test_pod_tolerates_taints_for_the_shortest_time(tolerations: list[Any], seconds: int | None) -> None:
    taints = [Taint(key=key, effect="NoExecute") for key in ("a", "b")]
    expected = None if seconds is None else timedelta(seconds=seconds)
    assert toleration_time([Toleration(**one) for one in tolerations], taints) == expected
