"""Nodes under pressure, of values: no node of the embedded cluster is."""

from datetime import timedelta
from typing import Any

from kcr.api.explanation import Explanation
from kcr.api.meta import Key
from kcr.api.unstructured import unstructured
from kcr.cli.objects.explain import lines_of
from kcr.cli.objects.kinds.nodes import explain_lost_node, explain_node
from kcr.cli.objects.look import Shown
from kcr.cli.target import ObjectName
from tests.kit.builders import NOW
from tests.kit.explanations import screen, text

NODE = unstructured("v1", "Node", plural="nodes", namespaced=False)
SINCE = (NOW - timedelta(seconds=90)).isoformat().replace("+00:00", "Z")


def condition(kind: str, status: str, reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": SINCE}


def explained(*conditions: dict[str, str], **spec: Any) -> Explanation:
    made = {"metadata": {"name": "n1"}, "spec": spec, "status": {"conditions": list(conditions)}}
    return explain_node(NODE.of(made), None, NOW)


def test_node_under_pressure_and_cordoned_says_both() -> None:
    pressed = condition("DiskPressure", "True", "KubeletHasDiskPressure", "kubelet has disk pressure")
    found = explained(
        pressed, condition("Ready", "True"), unschedulable=True,
        taints=[
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"},
        ],
    )  # fmt: skip
    shown = Shown(found, (), ())
    assert screen(lines_of(ObjectName(NODE, "n1"), Key("", "n1"), shown, NOW)) == text("""
        node n1: has too little disk space: it evicts pods, and pulls no images; is cordoned: no new pod is
          scheduled on it
          why         condition DiskPressure is True, 90s ago: KubeletHasDiskPressure: kubelet has disk
                        pressure
                      it takes only pods that tolerate its taints:
                        node.kubernetes.io/disk-pressure:NoSchedule
          remedy      see what its kubelet reports: kubectl describe node n1
                      to let it take pods again: kubectl uncordon n1
    """)


def test_headline_is_the_nodes_readiness() -> None:
    assert explained(condition("Ready", "True")).headline == "has been ready for 90s"
    assert explained(condition("Ready", "False", "KubeletNotReady")).headline == "has not been ready for 90s"
    assert explained().headline == "has never reported whether it is ready"


def test_node_that_is_not_there_may_never_have_been() -> None:
    assert explain_lost_node(Key("", "n2"), ()).headline == "does not exist"
    assert "may not be listed" in explain_lost_node(Key("", "n2"), None).reasons[0]
