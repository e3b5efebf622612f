"""Pods and nodes for the tests of the scheduler."""

from typing import Any

from kcr.api import codec
from kcr.api.core import Node
from kcr.api.meta import Key
from kcr.client import Client
from kcr_devcluster.cluster.node.pods import KubeletPod
from kcr_devcluster.cluster.scheduling.cluster_state import NodeState, PodInfo
from kcr_devcluster.cluster.scheduling.objects import ScheduledNode, ScheduledPod
from kcr_devcluster.cluster.scheduling.requests import amounts

Manifest = dict[str, Any]


def pod_info(
    name: str = "p",
    *,
    cpu: str = "",
    priority: int = 0,
    status: Manifest | None = None,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> PodInfo:
    """A pod of one container, that may request cpu; other fields by their names on the wire."""
    container: Manifest = {"name": "main", "resources": {"requests": {"cpu": cpu}} if cpu else {}}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels or {}}
    manifest = {
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {"containers": [container], "priority": priority, **spec}, "status": status or {},
    }  # fmt: skip
    return PodInfo.of(codec.decode(ScheduledPod, codec.encode(manifest)))


def node_state(
    name: str = "n", *pods: PodInfo, labels: dict[str, str] | None = None, ready: str = "True", **spec: Any
) -> NodeState:
    """A node with ten cpus, and pods on it; fields of its spec by their names on the wire."""
    allocatable = {"cpu": "10", "memory": "10Gi", "pods": "5"}
    manifest = {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels or {}}, "spec": spec,
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": ready}]},
    }  # fmt: skip
    state = NodeState(codec.decode(ScheduledNode, codec.encode(manifest)), amounts(allocatable))
    for pod in pods:
        state.add(pod)
    return state


def requesting(name: str, cpu: str, **spec: Any) -> Manifest:
    """The manifest of a pod that requests cpu."""
    resources = {"requests": {"cpu": cpu}}
    container = {"name": "main", "image": "app:1", "command": ["run"], "resources": resources}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }  # fmt: skip


async def schedule(client: Client, name: str, cpu: str = "1", **spec: Any) -> KubeletPod:
    """Create a pod that requests cpu."""
    return await client.create_manifest(KubeletPod, requesting(name, cpu, **spec), "default")


async def node_of(client: Client, name: str) -> str:
    """Return the node of a pod, `""` for none."""
    return (await client.get(KubeletPod, Key("default", name))).spec.node_name


async def why_unscheduled(client: Client, name: str) -> str:
    """Return the message of the condition PodScheduled, `""` when it is True or not there."""
    pod = await client.get(KubeletPod, Key("default", name))
    return next((one.message for one in pod.status.conditions if one.type == "PodScheduled"), "")


async def change_node(client: Client, name: str, change: Manifest, *, status: bool = False) -> None:
    """Change fields of a node, or of its status."""
    part = {"status" if status else "spec": change}
    await client.merge_patch(Node, Key("", name), part, subresource="status" if status else "")


async def add_priority_class(client: Client, name: str, value: int, **fields: Any) -> None:
    """Create a PriorityClass."""
    await client.request(
        "POST", "/apis/scheduling.k8s.io/v1/priorityclasses",
        codec.encode({"metadata": {"name": name}, "value": value, **fields}),
    )  # fmt: skip
