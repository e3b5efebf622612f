"""Score plugins: which of the feasible nodes is best for a pod.

Each score is between 0 and 100 and has upstream's weight. Of nodes with equal totals, upstream draws one; here it is
the one with the fewest pods, then the first by name, so that a run can be repeated.

Source: kubernetes/pkg/scheduler/framework/plugins: tainttoleration, nodeaffinity, noderesources/least_allocated.go and
balanced_allocation.go; pkg/scheduler/apis/config/v1/default_plugins.go for the weights.
"""

from collections.abc import Mapping

from kcr_devcluster.cluster.scheduling.cluster_state import NodeState, PodInfo
from kcr_devcluster.cluster.scheduling.matching import preference, taints_of, untolerated
from kcr_devcluster.cluster.scheduling.surroundings import Surroundings

MAX_SCORE = 100
_TAINTS_WEIGHT, _AFFINITY_WEIGHT, _NEARNESS_WEIGHT = 3, 2, 2


def best_node(info: PodInfo, feasible: Mapping[str, NodeState], surroundings: Surroundings | None = None) -> str:
    """Return the name of the best node.

    Args:
        info: The pod.
        feasible: The nodes that take it; at least one.
        surroundings: The pods near the nodes; None when they decide nothing.
    """
    if len(feasible) == 1:
        return next(iter(feasible))
    taints = {name: _preferred_taints(info, state) for name, state in feasible.items()}
    preferences = {name: preference(info.pod.spec, state.node) if state.node else 0 for name, state in feasible.items()}
    near = _normalized(feasible, surroundings)
    most_taints, most_preferred = max(taints.values()), max(preferences.values())

    def rank(name: str) -> tuple[int, int, str]:
        state = feasible[name]
        total = _least_allocated(info, state) + _balanced(info, state)
        total += _TAINTS_WEIGHT * (MAX_SCORE - (MAX_SCORE * taints[name] // most_taints if most_taints else 0))
        total += _AFFINITY_WEIGHT * (MAX_SCORE * preferences[name] // most_preferred if most_preferred else 0)
        total += _NEARNESS_WEIGHT * near.get(name, 0)
        return (-total, len(state.pods), name)

    return min(feasible, key=rank)


def _normalized(feasible: Mapping[str, NodeState], surroundings: Surroundings | None) -> dict[str, int]:
    """Return how much the pod prefers each node for the pods near it, from 0 to 100."""
    if surroundings is None or not surroundings.pull:
        return {}
    found = {name: surroundings.preference(state.node) for name, state in feasible.items() if state.node is not None}
    lowest, highest = min(found.values()), max(found.values())
    return {name: MAX_SCORE * (value - lowest) // max(highest - lowest, 1) for name, value in found.items()}


def _preferred_taints(info: PodInfo, state: NodeState) -> int:
    if state.node is None or not state.node.spec.taints:
        return 0
    return len(untolerated(info.pod.spec.tolerations, taints_of(state.node), ("PreferNoSchedule",)))


def _fractions(info: PodInfo, state: NodeState) -> tuple[float, float]:
    """Return the fractions of cpu and memory that are taken with the pod on the node."""
    cpu, memory = (
        min((taken + more) / total, 1.0) if (total := state.allocatable.get(name, 0)) else 1.0
        for name, taken, more in zip(("cpu", "memory"), state.scored, info.scored, strict=True)
    )
    return cpu, memory


def _least_allocated(info: PodInfo, state: NodeState) -> int:
    return sum(int((1 - fraction) * MAX_SCORE) for fraction in _fractions(info, state)) // 2


def _balanced(info: PodInfo, state: NodeState) -> int:
    cpu, memory = _fractions(info, state)
    return int((1 - abs(cpu - memory) / 2) * MAX_SCORE)
