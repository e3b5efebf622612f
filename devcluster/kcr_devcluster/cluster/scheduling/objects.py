"""Pods and nodes as the scheduler reads them: views with the fields that decide where a pod runs."""

from collections.abc import Iterable, Mapping

from msgspec import field

from kcr.api.core import Container as CoreContainer
from kcr.api.core import Node, NodeSpec, NodeStatus, Pod, PodSpec, PodStatus
from kcr.api.full.core_v1 import Affinity, ContainerPort, Taint, Toleration, TopologySpreadConstraint
from kcr.api.meta import Key, Object
from kcr.api.pods import is_terminal
from kcr.api.scheduling import SchedulingGroup
from kcr.informer import Selection

DEFAULT_SCHEDULER = "default-scheduler"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"


class RequestedResources(Object):
    """The resource requests of a container, or of a pod as a whole."""

    requests: Mapping[str, str] = {}


class ScheduledContainer(CoreContainer):
    """A container, its requests and its ports."""

    resources: RequestedResources = RequestedResources()
    ports: tuple[ContainerPort, ...] = ()


class ScheduledPodSpec(PodSpec):
    """The fields that decide where a pod runs, and which pods may be deleted for it."""

    init_containers: tuple[ScheduledContainer, ...] = ()
    containers: tuple[ScheduledContainer, ...] = ()
    resources: RequestedResources = RequestedResources()
    overhead: Mapping[str, str] = {}
    scheduler_name: str = ""
    scheduling_gates: tuple[Mapping[str, str], ...] = ()
    node_selector: Mapping[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    priority: int | None = None
    preemption_policy: str = ""
    scheduling_group: SchedulingGroup = SchedulingGroup()


class ScheduledPodStatus(PodStatus):
    """The status, and the node that is being freed for the pod."""

    nominated_node_name: str = ""
    start_time: str = ""


class ScheduledPod(Pod):
    """A pod as the scheduler reads it."""

    spec: ScheduledPodSpec = ScheduledPodSpec()
    status: ScheduledPodStatus = ScheduledPodStatus()


class PlacedPod(ScheduledPod):
    """A pod that has a node and has not ended: it counts on the node."""


# Source: kubernetes/pkg/scheduler/scheduler.go, NewInformerFactory.
PLACED = Selection(PlacedPod, fields="spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed")


class ScheduledNodeSpec(NodeSpec):
    """The fields that keep pods off a node."""

    taints: tuple[Taint, ...] = ()


class ScheduledNodeStatus(NodeStatus):
    """The conditions of a node, and its allocatable resources."""

    allocatable: Mapping[str, str] = field(default_factory=dict)


class ScheduledNode(Node):
    """A node as the scheduler reads it."""

    spec: ScheduledNodeSpec = ScheduledNodeSpec()
    status: ScheduledNodeStatus = ScheduledNodeStatus()


def wants_a_node(pod: ScheduledPod) -> bool:
    """Return whether a pod waits for a node, and may have one."""
    spec = pod.spec
    if spec.node_name or spec.scheduling_gates or is_terminal(pod) or pod.metadata.deletion_timestamp is not None:
        return False
    return (spec.scheduler_name or DEFAULT_SCHEDULER) == DEFAULT_SCHEDULER


def group_key(pod: ScheduledPod) -> Key | None:
    """Return the PodGroup that a pod belongs to; None for none."""
    name = pod.spec.scheduling_group.pod_group_name
    return Key(pod.metadata.namespace, name) if name else None


def members(pods: Iterable[ScheduledPod], key: Key) -> list[ScheduledPod]:
    """Return the pods of a group that are not being deleted."""
    return [pod for pod in pods if group_key(pod) == key and pod.metadata.deletion_timestamp is None]
