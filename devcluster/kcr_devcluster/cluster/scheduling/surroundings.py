"""Inter-pod affinity, anti-affinity and topology spread constraints: which pods run in the topology domains of a node.

Source: kubernetes/pkg/scheduler/framework/plugins/interpodaffinity/{filtering,scoring}.go and
podtopologyspread/{filtering,scoring}.go. Upstream also scores the preferences of the pods that run already.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from kcr.api.full.core_v1 import PodAffinityTerm, TopologySpreadConstraint, WeightedPodAffinityTerm
from kcr.api.selectors import LabelSelector, Requirement, matches
from kcr_devcluster.cluster.scheduling.cluster_state import NodeState, PodInfo
from kcr_devcluster.cluster.scheduling.matching import matches_required, taints_of, untolerated
from kcr_devcluster.cluster.scheduling.objects import ScheduledNode

# A label key and a value of it: all nodes that have it.
Domain = tuple[str, str]
# The labels of namespaces, by name.
Namespaces = Mapping[str, Mapping[str, str]]
NO_NAMESPACES: Namespaces = MappingProxyType({})

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"
SPREAD = "node(s) didn't match pod topology spread constraints"
NO_LABEL = f"{SPREAD} (missing required label)"
# Reasons that may go when other pods are deleted.
RESOLVABLE = (ANTI_AFFINITY, EXISTING_ANTI_AFFINITY, SPREAD)


@dataclass(slots=True)
class Spread:
    """How many pods that a constraint is about are in each domain, of those that count."""

    constraint: TopologySpreadConstraint
    counts: Counter[str] = field(default_factory=Counter)
    own: bool = False

    def skew(self, domain: str) -> int:
        """Return how uneven the pods would be spread with the pod in a domain."""
        fewest = min(self.counts.values(), default=0)
        if self.constraint.min_domains is not None and len(self.counts) < self.constraint.min_domains:
            fewest = 0
        return self.counts[domain] + self.own - fewest


@dataclass(slots=True)
class Surroundings:
    """The pods near each node, as they affect one pod.

    Attributes:
        attracted: Terms of the pod that want it near others.
        attracting: Where pods are that all of these terms are about.
        is_first: Whether there are none, and the terms are about the pod itself: it may be the first.
        repelling: Where pods are that the pod must not be near.
        repelled: Where pods are that must not have the pod near them.
        spreads: The constraints that must hold.
        pull: How much the pod prefers each domain.
    """

    attracted: tuple[PodAffinityTerm, ...] = ()
    attracting: Counter[Domain] = field(default_factory=Counter)
    is_first: bool = False
    repelling: set[Domain] = field(default_factory=set)
    repelled: set[Domain] = field(default_factory=set)
    spreads: tuple[Spread, ...] = ()
    pull: Counter[Domain] = field(default_factory=Counter)

    def reason(self, node: ScheduledNode) -> str:
        """Return why the pod is kept off a node, with upstream's message; `""` if it is not."""
        labels = node.metadata.labels
        for spread in self.spreads:
            domain = labels.get(spread.constraint.topology_key)
            if domain is None:
                return NO_LABEL
            if spread.skew(domain) > spread.constraint.max_skew:
                return SPREAD
        for term in self.attracted:
            key = term.topology_key
            if key not in labels or not (self.is_first or self.attracting[key, labels[key]]):
                return AFFINITY
        domains = labels.items()
        if not self.repelling.isdisjoint(domains):
            return ANTI_AFFINITY
        return "" if self.repelled.isdisjoint(domains) else EXISTING_ANTI_AFFINITY

    def preference(self, node: ScheduledNode) -> int:
        """Return how much the pod prefers a node to others."""
        return sum(self.pull[domain] for domain in node.metadata.labels.items()) if self.pull else 0


def survey(info: PodInfo, nodes: Mapping[str, NodeState], namespaces: Namespaces) -> Surroundings | None:
    """Return the pods near each node, or None when they decide nothing about a pod.

    Args:
        info: The pod.
        nodes: All nodes.
        namespaces: See `Namespaces`; of a missing one, the name is known.
    """
    if not info.minds_others and not any(state.repelling for state in nodes.values()):
        return None
    found = Surroundings(attracted=_terms(info, "pod_affinity"))
    soft = [one for one in info.pod.spec.topology_spread_constraints if one.when_unsatisfiable != "DoNotSchedule"]
    for state in nodes.values():
        if state.node is not None:
            _look_around(found, info, state, namespaces)
            _add_domains(found.pull, soft, info, state)
    found.spreads = tuple(
        _spread(one, info, nodes.values())
        for one in info.pod.spec.topology_spread_constraints
        if one.when_unsatisfiable == "DoNotSchedule"
    )
    found.is_first = not found.attracting and all(_is_about(one, info, info, namespaces) for one in found.attracted)
    return found


def _look_around(found: Surroundings, info: PodInfo, state: NodeState, namespaces: Namespaces) -> None:
    """Note the pods of one node."""
    labels = state.node.metadata.labels if state.node is not None else {}
    repelling, wanted, unwanted = _terms(info, "pod_anti_affinity"), _preferred(info, 1), _preferred(info, -1)
    for other in state.pods.values() if info.minds_others else ():
        if found.attracted and all(_is_about(term, info, other, namespaces) for term in found.attracted):
            found.attracting.update((one.topology_key, labels.get(one.topology_key, "")) for one in found.attracted)
        for term in repelling:
            if term.topology_key in labels and _is_about(term, info, other, namespaces):
                found.repelling.add((term.topology_key, labels[term.topology_key]))
        for sign, weighted in (*wanted, *unwanted):
            key = weighted.pod_affinity_term.topology_key
            if key in labels and _is_about(weighted.pod_affinity_term, info, other, namespaces):
                found.pull[key, labels[key]] += sign * weighted.weight
    for other in state.repelling.values():
        for term in _terms(other, "pod_anti_affinity"):
            if term.topology_key in labels and _is_about(term, other, info, namespaces):
                found.repelled.add((term.topology_key, labels[term.topology_key]))


def _terms(info: PodInfo, kind: str) -> tuple[PodAffinityTerm, ...]:
    affinity = getattr(info.pod.spec.affinity, kind, None)
    return () if affinity is None else affinity.required_during_scheduling_ignored_during_execution


def _preferred(info: PodInfo, sign: int) -> tuple[tuple[int, WeightedPodAffinityTerm], ...]:
    affinity = getattr(info.pod.spec.affinity, "pod_affinity" if sign > 0 else "pod_anti_affinity", None)
    terms = () if affinity is None else affinity.preferred_during_scheduling_ignored_during_execution
    return tuple((sign, one) for one in terms)


def _is_about(term: PodAffinityTerm, owner: PodInfo, other: PodInfo, namespaces: Namespaces) -> bool:
    """Return whether a term of one pod is about another one; without a selector it is about none."""
    where = other.key.namespace
    named = term.namespaces or (() if term.namespace_selector is not None else (owner.key.namespace,))
    if where not in named:
        labels = namespaces.get(where) or {"kubernetes.io/metadata.name": where}
        if term.namespace_selector is None or not matches(term.namespace_selector, labels):
            return False
    if term.label_selector is None:
        return False
    keys = [(key, "In") for key in term.match_label_keys] + [(key, "NotIn") for key in term.mismatch_label_keys]
    return matches(_with_keys(term.label_selector, keys, owner), other.pod.metadata.labels)


def _with_keys(selector: LabelSelector, keys: Iterable[tuple[str, str]], owner: PodInfo) -> LabelSelector:
    """Return a selector that also compares some labels with those of a pod, as far as it has them."""
    labels = owner.pod.metadata.labels
    more = tuple(Requirement(key=key, operator=how, values=(labels[key],)) for key, how in keys if key in labels)
    return LabelSelector(
        match_labels=selector.match_labels, match_expressions=(*selector.match_expressions, *more)
    ) if more else selector  # fmt: skip


def _spread(constraint: TopologySpreadConstraint, info: PodInfo, states: Iterable[NodeState]) -> Spread:
    spread = Spread(constraint, own=_counts(constraint, info, info))
    for state in states:
        if state.node is not None and _takes_part(constraint, info, state.node):
            domain = state.node.metadata.labels[constraint.topology_key]
            spread.counts[domain] += sum(_counts(constraint, info, other) for other in state.pods.values())
    return spread


def _takes_part(constraint: TopologySpreadConstraint, info: PodInfo, node: ScheduledNode) -> bool:
    """Return whether the pods of a node count for a constraint."""
    spec = info.pod.spec
    hard = (one for one in spec.topology_spread_constraints if one.when_unsatisfiable == constraint.when_unsatisfiable)
    if any(one.topology_key not in node.metadata.labels for one in hard):
        return False
    if constraint.node_affinity_policy != "Ignore" and not matches_required(spec, node):
        return False
    honors = constraint.node_taints_policy == "Honor"
    return not (honors and untolerated(spec.tolerations, taints_of(node), ("NoSchedule", "NoExecute")))


def _counts(constraint: TopologySpreadConstraint, info: PodInfo, other: PodInfo) -> bool:
    """Return whether a constraint of one pod counts another one."""
    if constraint.label_selector is None or other.key.namespace != info.key.namespace:
        return False
    selector = _with_keys(constraint.label_selector, [(key, "In") for key in constraint.match_label_keys], info)
    return other.pod.metadata.deletion_timestamp is None and matches(selector, other.pod.metadata.labels)


def _add_domains(
    pull: Counter[Domain], constraints: Iterable[TopologySpreadConstraint], info: PodInfo, state: NodeState
) -> None:
    """Make the domains less wanted that have many pods of constraints that need not hold."""
    for constraint in constraints:
        if state.node is not None and _takes_part(constraint, info, state.node):
            domain = (constraint.topology_key, state.node.metadata.labels[constraint.topology_key])
            pull[domain] -= sum(_counts(constraint, info, other) for other in state.pods.values())
