"""Whether taints and labels of a node suit a pod.

Source: kubernetes/staging/src/k8s.io/component-helpers/scheduling/corev1/helpers.go and nodeaffinity/nodeaffinity.go;
kubernetes/staging/src/k8s.io/api/core/v1/toleration.go, ToleratesTaint.
"""

from collections.abc import Iterable, Mapping

from kcr.api.durations import parse_int
from kcr.api.full.core_v1 import NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration
from kcr_devcluster.cluster.scheduling.objects import NOT_READY, UNREACHABLE, ScheduledNode, ScheduledPodSpec


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return whether a toleration is for a taint: an empty effect is for all, an empty key with `Exists` too."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in (None, "", "Equal") and (toleration.value or "") == (taint.value or "")


def untolerated(
    tolerations: Iterable[Toleration], taints: Iterable[Taint], effects: tuple[str, ...]
) -> tuple[Taint, ...]:
    """Return the taints of some effects that no toleration is for."""
    found = tuple(tolerations)
    return tuple(
        taint for taint in taints if taint.effect in effects and not any(tolerates(one, taint) for one in found)
    )


def taints_of(node: ScheduledNode) -> tuple[Taint, ...]:
    """Return the taints of a node. One that is not ready is tainted at once, before its controller writes the taint."""
    taints = node.spec.taints
    ready = any(one.type == "Ready" and one.status == "True" for one in node.status.conditions)
    if ready or any(taint.effect == "NoSchedule" and taint.key in (NOT_READY, UNREACHABLE) for taint in taints):
        return taints
    return (*taints, Taint(key=NOT_READY, effect="NoSchedule"))


def matches_required(spec: ScheduledPodSpec, node: ScheduledNode) -> bool:
    """Return whether a node has the labels of a pod's node selector and is one of those its affinity requires."""
    labels = node.metadata.labels
    if spec.node_selector and not spec.node_selector.items() <= labels.items():
        return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return required is None or any(matches_term(term, node) for term in required.node_selector_terms)


def preference(spec: ScheduledPodSpec, node: ScheduledNode) -> int:
    """Return the sum of the weights of the preferred terms that a node matches; an empty term matches every node."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is None:
        return 0
    return sum(
        term.weight
        for term in affinity.preferred_during_scheduling_ignored_during_execution
        if matches_term(term.preference, node)
    )


def matches_term(term: NodeSelectorTerm, node: ScheduledNode) -> bool:
    """Return whether a node matches all requirements of a term; a term without any matches no node."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node.metadata.name}
    return all(_matches(one, node.metadata.labels) for one in term.match_expressions) and all(
        _matches(one, fields) for one in term.match_fields
    )


def _matches(requirement: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    has, values = requirement.key in labels, requirement.values
    match requirement.operator:
        case "In":
            return has and labels[requirement.key] in values
        case "NotIn":
            return not has or labels[requirement.key] not in values
        case "Exists":
            return has
        case "DoesNotExist":
            return not has
    return has and _compares(requirement.operator, labels[requirement.key], values)


def _compares(operator: str, label: str, values: tuple[str, ...]) -> bool:
    ours, theirs = parse_int(label), parse_int(values[0]) if len(values) == 1 else None
    # A value that is no integer matches nothing.
    if ours is None or theirs is None or operator not in ("Gt", "Lt"):
        return False
    return ours > theirs if operator == "Gt" else ours < theirs
