"""Filter plugins: why a node is not feasible for a pod, in upstream's order and with its reasons.

Source: kubernetes/pkg/scheduler/framework/plugins: nodeunschedulable, tainttoleration, nodeaffinity, nodeports,
noderesources/fit.go, podtopologyspread, interpodaffinity; pkg/scheduler/apis/config/v1/default_plugins.go, the order.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kcr.api.full.core_v1 import Taint
from kcr_devcluster.cluster.scheduling.cluster_state import HostPort, NodeState, PodInfo
from kcr_devcluster.cluster.scheduling.matching import matches_required, taints_of, untolerated
from kcr_devcluster.cluster.scheduling.objects import ScheduledNode
from kcr_devcluster.cluster.scheduling.requests import ONE
from kcr_devcluster.cluster.scheduling.surroundings import RESOLVABLE, Surroundings

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_KEEPS_OFF = ("NoSchedule", "NoExecute")
_EVERY_ADDRESS = "0.0.0.0"  # as pods name it; nothing is bound here
_FIRST = ("cpu", "memory", "ephemeral-storage")


class Rejection(NamedTuple):
    """A node does not take a pod.

    Attributes:
        reasons: Why, in upstream's words.
        resolvable: Whether it may take the pod once other pods are deleted.
    """

    reasons: tuple[str, ...]
    resolvable: bool = False


def rejection(
    info: PodInfo, state: NodeState, ahead: Iterable[PodInfo] = (), surroundings: Surroundings | None = None
) -> Rejection | None:
    """Return why a node does not take a pod, None when it does. The first filter that rejects gives the reason.

    Args:
        info: The pod.
        state: The node.
        ahead: Nominated pods of the node, of the same or a higher priority.
        surroundings: The pods near the nodes; None when they decide nothing.
    """
    if state.node is None:
        return Rejection(("node(s) not found",))
    keeps_off = _node_keeps_off(info, state.node)
    if keeps_off:
        return Rejection((keeps_off,))
    crowded = state
    for other in ahead:
        crowded = state.copy() if crowded is state else crowded
        crowded.add(other)
    if info.ports and any(_conflicts(port, taken) for port in info.ports for taken in crowded.ports):
        return Rejection(("node(s) didn't have free ports for the requested pod ports",), resolvable=True)
    if (lacking := _lacks_resources(info, crowded)) is not None or surroundings is None:
        return lacking
    reason = surroundings.reason(state.node)
    return Rejection((reason,), reason in RESOLVABLE) if reason else None


def _node_keeps_off(info: PodInfo, node: ScheduledNode) -> str:
    """Return why the node itself rejects a pod, independently of other pods; `""` if it does not."""
    spec = info.pod.spec
    if node.spec.unschedulable and untolerated(spec.tolerations, (UNSCHEDULABLE_TAINT,), _KEEPS_OFF):
        return "node(s) were unschedulable"
    if untolerated(spec.tolerations, taints_of(node), _KEEPS_OFF):
        return "node(s) had untolerated taint(s)"
    return "" if matches_required(spec, node) else "node(s) didn't match Pod's node affinity/selector"


def _conflicts(port: HostPort, taken: HostPort) -> bool:
    same = (port.protocol, port.port) == (taken.protocol, taken.port)
    return same and (port.address == taken.address or _EVERY_ADDRESS in (port.address, taken.address))


def _lacks_resources(info: PodInfo, state: NodeState) -> Rejection | None:
    reasons: list[str] = []
    resolvable = True
    if (len(state.pods) + 1) * ONE > state.allocatable.get("pods", 0):
        reasons.append("Too many pods")
    for name in sorted(info.requests, key=_order):
        wanted, total = info.requests[name], state.allocatable.get(name, 0)
        if wanted > 0 and wanted > total - state.requested[name]:
            reasons.append(f"Insufficient {name}")
            # More than the node has in all: no deletion of pods helps.
            resolvable &= wanted <= total
    return Rejection(tuple(reasons), resolvable) if reasons else None


def _order(resource: str) -> tuple[int, str]:
    return (_FIRST.index(resource) if resource in _FIRST else len(_FIRST), resource)
