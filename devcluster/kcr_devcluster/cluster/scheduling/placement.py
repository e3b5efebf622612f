"""Scheduling of one pod: filters the nodes, scores them, and tries preemption when no node is feasible.

Source: kubernetes/pkg/scheduler/schedule_one.go, schedulePod, findNodesThatFitPod, evaluateNominatedNode;
pkg/scheduler/framework/types.go, FitError.Error; pkg/scheduler/framework/runtime/framework.go,
RunFilterPluginsWithNominatedPods.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kcr.api.meta import Key
from kcr_devcluster.cluster.scheduling.cluster_state import NodeState, PodInfo
from kcr_devcluster.cluster.scheduling.filters import Rejection, rejection
from kcr_devcluster.cluster.scheduling.preemption import Budgets, Preemption, histogram, preempt
from kcr_devcluster.cluster.scheduling.scores import best_node
from kcr_devcluster.cluster.scheduling.surroundings import NO_NAMESPACES, Namespaces, survey

# The plugin DynamicResources speaks before preemption does, of pods without claims too.
_NO_CLAIMS = "no new claims to deallocate"

# Nominated pods (`status.nominatedNodeName`): preemption frees these nodes for them.
Nominated = Mapping[Key, tuple[str, PodInfo]]


class Unschedulable(NamedTuple):
    """No node takes the pod.

    Attributes:
        message: Why, as in the pod's condition and the event.
        preemption: How a node can be freed for it; None for not at all.
    """

    message: str
    preemption: Preemption | None = None


class Search(NamedTuple):
    """The nodes for a pod.

    Attributes:
        node: The best one; `""` for none.
        rejections: Why the nodes do not take the pod, when none does.
        ahead: By node, its nominated pods of the same or a higher priority.
    """

    node: str
    rejections: Mapping[str, Rejection] = {}
    ahead: Mapping[str, Sequence[PodInfo]] = {}


def search(
    info: PodInfo, nodes: Mapping[str, NodeState], nominated: Nominated, namespaces: Namespaces = NO_NAMESPACES
) -> Search:
    """Find the best node that takes a pod; first of all the one that was freed for it.

    Args:
        info: The pod.
        nodes: All nodes.
        nominated: See `Nominated`.
        namespaces: The labels of namespaces, by name.
    """
    ahead = _ahead(info, nominated) if nominated else {}
    surroundings = survey(info, nodes, namespaces)
    own = nominated.get(info.key)
    feasible: dict[str, NodeState] = {}
    rejections: dict[str, Rejection] = {}
    for name, state in nodes.items():
        rejected = rejection(info, state, ahead.get(name, ()), surroundings)
        if rejected is not None:
            rejections[name] = rejected
        elif own is not None and own[0] == name:
            return Search(name)
        else:
            feasible[name] = state
    return Search(best_node(info, feasible, surroundings) if feasible else "", rejections, ahead)


def find_node(
    info: PodInfo,
    nodes: Mapping[str, NodeState],
    nominated: Nominated,
    namespaces: Namespaces = NO_NAMESPACES,
    budgets: Budgets = (),
) -> str | Unschedulable:
    """Return the node for a pod, or why there is none and the preemption that would help, if any.

    Args:
        info: The pod.
        nodes: All nodes; at least one.
        nominated: See `Nominated`.
        namespaces: The labels of namespaces, by name.
        budgets: All PodDisruptionBudgets.
    """
    node, rejections, ahead = search(info, nodes, nominated, namespaces)
    if node:
        return node
    reasons = Counter(reason for rejected in rejections.values() for reason in rejected.reasons)
    message = f"0/{len(nodes)} nodes are available: {histogram(reasons)}."
    found = preempt(info, nodes, rejections, ahead, namespaces, budgets)
    if isinstance(found, Preemption):
        return Unschedulable(message, found)
    return Unschedulable(f"{message} {_NO_CLAIMS}, preemption: {found}")


def _ahead(info: PodInfo, nominated: Nominated) -> dict[str, list[PodInfo]]:
    """Return, by node, its nominated pods of the same or a higher priority."""
    ahead: dict[str, list[PodInfo]] = {}
    for key, (node, other) in nominated.items():
        if key != info.key and other.priority >= info.priority:
            ahead.setdefault(node, []).append(other)
    return ahead
