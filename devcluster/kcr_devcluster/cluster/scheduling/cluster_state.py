"""State of the cluster for scheduling: the nodes, their pods, and the sums of their requests.

Source: kubernetes/pkg/scheduler/framework/types.go, NodeInfo; pkg/scheduler/backend/cache/cache.go.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from kcr.api.meta import Key
from kcr_devcluster.cluster.scheduling.objects import ScheduledNode, ScheduledPod
from kcr_devcluster.cluster.scheduling.requests import Amounts, amounts, pod_requests, scored_requests


class HostPort(NamedTuple):
    """A port of the node's that a container takes; the address `0.0.0.0` means all of them."""

    address: str
    protocol: str
    port: int


class PodInfo(NamedTuple):
    """A pod and the values derived from it.

    Attributes:
        pod: The pod.
        requests: Its resource requests.
        scored: Cpu and memory that scores count.
        ports: Ports of the node's that it takes.
        minds_others: Whether it has inter-pod affinity or anti-affinity, or topology spread constraints.
        repels_others: Whether it has required anti-affinity.
    """

    pod: ScheduledPod
    requests: Amounts
    scored: tuple[int, int]
    ports: frozenset[HostPort] = frozenset()
    minds_others: bool = False
    repels_others: bool = False

    @classmethod
    def of(cls, pod: ScheduledPod) -> "PodInfo":
        """Derive everything from a pod."""
        requests = pod_requests(pod.spec)
        affinity = pod.spec.affinity
        near = affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity) is not None
        anti = affinity.pod_anti_affinity if affinity is not None else None
        return cls(
            pod,
            requests,
            scored_requests(pod.spec, requests),
            _host_ports(pod),
            minds_others=near or bool(pod.spec.topology_spread_constraints),
            repels_others=anti is not None and bool(anti.required_during_scheduling_ignored_during_execution),
        )

    @property
    def key(self) -> Key:
        """The pod's namespace and name."""
        return self.pod.key

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.pod.metadata.uid

    @property
    def priority(self) -> int:
        """The pod's priority."""
        return self.pod.spec.priority or 0


def _host_ports(pod: ScheduledPod) -> frozenset[HostPort]:
    return frozenset(
        HostPort(port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)  # a name, not a bind
        for containers in (pod.spec.init_containers, pod.spec.containers)
        for container in containers
        if container.ports and (containers is pod.spec.containers or container.restart_policy == "Always")
        for port in container.ports
        if port.host_port
    )


@dataclass(slots=True)
class NodeState:
    """A node and the pods that are placed there.

    Attributes:
        node: The node; None for the name of a node that does not exist, such as one that was deleted.
        allocatable: The resources that its pods may request in all.
        pods: The pods that have not ended, by key.
        requested: The sum of their requests.
        scored: The sum of the cpu and memory that scores count.
        ports: Ports that are taken, and how often.
        repelling: Those of the pods with required anti-affinity.
    """

    node: ScheduledNode | None = None
    allocatable: Amounts = field(default_factory=dict)
    pods: dict[Key, PodInfo] = field(default_factory=dict)
    # Invariant: the sums over `pods`.
    requested: Counter[str] = field(default_factory=Counter)
    scored: tuple[int, int] = (0, 0)
    ports: Counter[HostPort] = field(default_factory=Counter)
    repelling: dict[Key, PodInfo] = field(default_factory=dict)

    def add(self, info: PodInfo) -> None:
        """Place a pod here, or replace its earlier state."""
        self.remove(info.key)
        self.pods[info.key] = info
        self.scored = (self.scored[0] + info.scored[0], self.scored[1] + info.scored[1])
        if info.requests:
            self.requested.update(info.requests)
        if info.ports:
            self.ports.update(info.ports)
        if info.repels_others:
            self.repelling[info.key] = info

    def remove(self, key: Key) -> None:
        """Take a pod away, if it is here."""
        info = self.pods.pop(key, None)
        if info is None:
            return
        self.scored = (self.scored[0] - info.scored[0], self.scored[1] - info.scored[1])
        if info.requests:
            self.requested.subtract(info.requests)
        if info.ports:
            self.ports -= Counter(info.ports)
        if info.repels_others:
            del self.repelling[key]

    def copy(self) -> "NodeState":
        """Return a copy to try things on."""
        return NodeState(
            self.node, self.allocatable, dict(self.pods), Counter(self.requested), self.scored, Counter(self.ports),
            dict(self.repelling),
        )  # fmt: skip


class ClusterState:
    """All nodes. Pods are placed by watch events and, ahead of them, by decisions.

    Attributes:
        nodes: The nodes that exist, by name.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, NodeState] = {}
        # Where each placed pod is. Invariant: exactly these are in the `pods` of `nodes` and `_gone`.
        self._places: dict[Key, NodeState] = {}
        # Pods of nodes that do not exist; they count when the node comes back.
        self._gone: dict[str, NodeState] = {}

    def set_node(self, node: ScheduledNode) -> None:
        """Take over a node as it is now."""
        name = node.metadata.name
        state = self.nodes.get(name) or self._gone.pop(name, None) or NodeState()
        state.node, state.allocatable = node, amounts(node.status.allocatable)
        self.nodes[name] = state

    def remove_node(self, name: str) -> None:
        """Take a node away; its pods stay placed there."""
        state = self.nodes.pop(name, None)
        if state is not None and state.pods:
            state.node = None
            self._gone[name] = state

    def place(self, info: PodInfo, node: str) -> None:
        """Place a pod on a node; the pod may be there already."""
        self.remove(info.key)
        state = self.nodes.get(node) or self._gone.setdefault(node, NodeState())
        state.add(info)
        self._places[info.key] = state

    def remove(self, key: Key) -> PodInfo | None:
        """Take a pod away, and return it if it was placed."""
        state = self._places.pop(key, None)
        if state is None:
            return None
        info = state.pods[key]
        state.remove(key)
        if state.node is None and not state.pods:
            self._gone = {name: one for name, one in self._gone.items() if one.pods}
        return info
