"""Where a pod goes: to the best node that takes it, or to one that has to be freed, or nowhere for now.

Source: kubernetes/pkg/scheduler/schedule_one.go, schedulePod, findNodesThatFitPod, evaluateNominatedNode;
pkg/scheduler/framework/types.go, FitError.Error; pkg/scheduler/framework/runtime/framework.go,
RunFilterPluginsWithNominatedPods.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from kcr.api.meta import Key
from kcr.cluster.scheduling.cluster_state import NodeState, PodInfo
from kcr.cluster.scheduling.filters import Rejection, rejection
from kcr.cluster.scheduling.preemption import Preemption, histogram, preempt
from kcr.cluster.scheduling.scores import best_node

# The plugin DynamicResources speaks before preemption does, of pods without claims too.
_NO_CLAIMS = "no new claims to deallocate"

# Pods for which nodes are being freed, with these nodes.
Nominated = Mapping[Key, tuple[str, PodInfo]]


class Unschedulable(NamedTuple):
    """No node takes the pod.

    Attributes:
        message: Why, as in the pod's condition and the event.
        preemption: How a node can be freed for it; None for not at all.
    """

    message: str
    preemption: Preemption | None = None


def find_node(info: PodInfo, nodes: Mapping[str, NodeState], nominated: Nominated) -> str | Unschedulable:
    """Return the node for a pod, or why there is none and what can be done.

    Args:
        info: The pod.
        nodes: All nodes; at least one.
        nominated: See `Nominated`.
    """
    ahead = _ahead(info, nominated) if nominated else {}
    own = nominated.get(info.key)
    if own is not None and own[0] in nodes and rejection(info, nodes[own[0]], ahead.get(own[0], ())) is None:
        return own[0]
    feasible, rejections = dict[str, NodeState](), dict[str, Rejection]()
    for name, state in nodes.items():
        rejected = rejection(info, state, ahead.get(name, ()))
        if rejected is None:
            feasible[name] = state
        else:
            rejections[name] = rejected
    if feasible:
        return best_node(info, feasible)
    reasons = Counter(reason for rejected in rejections.values() for reason in rejected.reasons)
    message = f"0/{len(nodes)} nodes are available: {histogram(reasons)}."
    found = preempt(info, nodes, rejections, ahead)
    if isinstance(found, Preemption):
        return Unschedulable(message, found)
    return Unschedulable(f"{message} {_NO_CLAIMS}, preemption: {found}")


def _ahead(info: PodInfo, nominated: Nominated) -> dict[str, list[PodInfo]]:
    """Return, by node, the pods that it is being freed for and whose priority is not lower than this pod's."""
    ahead: dict[str, list[PodInfo]] = {}
    for key, (node, other) in nominated.items():
        if key != info.key and other.priority >= info.priority:
            ahead.setdefault(node, []).append(other)
    return ahead
