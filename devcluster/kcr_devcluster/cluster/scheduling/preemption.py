"""Preemption: which pods (victims) are deleted to make room for one of higher priority.

Source: kubernetes/pkg/scheduler/framework/preemption/preemption.go, Preempt, pickOneNodeForPreemption;
pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go, SelectVictimsOnNode,
PodEligibleToPreemptOthers, filterPodsWithPDBViolation; pkg/scheduler/util/utils.go, MoreImportantPod.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcr.api.conditions import find_condition
from kcr.api.meta import Key
from kcr.api.selectors import matches
from kcr_devcluster.cluster.scheduling.cluster_state import NodeState, PodInfo
from kcr_devcluster.cluster.scheduling.filters import Rejection, rejection
from kcr_devcluster.cluster.scheduling.objects import ScheduledPod
from kcr_devcluster.cluster.scheduling.surroundings import NO_NAMESPACES, Namespaces, survey

if TYPE_CHECKING:  # few clusters have budgets
    from kcr.api.full.policy_v1 import PodDisruptionBudget

Budgets = Sequence["PodDisruptionBudget"]

PREEMPTION_BY_SCHEDULER = "PreemptionByScheduler"
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
# Added to each priority, so that fewer victims are better than more of negative priority.
_PRIORITY_OFFSET = 2**31


class Preemption(NamedTuple):
    """A node can be freed.

    Attributes:
        node: Its name.
        victims: The pods to delete, the most important first.
        violations: How many of them are deleted though a PodDisruptionBudget does not allow it.
    """

    node: str
    victims: tuple[PodInfo, ...]
    violations: int = 0


def preempt(
    info: PodInfo,
    nodes: Mapping[str, NodeState],
    rejections: Mapping[str, Rejection],
    ahead: Mapping[str, Iterable[PodInfo]],
    namespaces: Namespaces = NO_NAMESPACES,
    budgets: Budgets = (),
) -> Preemption | str:
    """Return which node to free for a pod and how, or why there is none.

    Args:
        info: The pod, which no node takes.
        nodes: All nodes.
        rejections: Why each of them does not take it.
        ahead: By node, its nominated pods of the same or a higher priority.
        namespaces: The labels of namespaces, by name.
        budgets: All PodDisruptionBudgets. Preemption avoids violating them where it can.
    """
    if reason := _why_not_eligible(info, nodes, rejections):
        return reason
    candidates: list[Preemption] = []
    reasons: Counter[str] = Counter()
    for name in sorted(nodes):
        if not rejections[name].resolvable:
            reasons[NOT_HELPFUL] += 1
            continue
        others = tuple(ahead.get(name, ()))

        def judge(trial: NodeState, name: str = name, others: tuple[PodInfo, ...] = others) -> Rejection | None:
            return rejection(info, trial, others, survey(info, {**nodes, name: trial}, namespaces))

        found = _victims_on(info, nodes[name], judge, budgets)
        if isinstance(found, Rejection):
            reasons.update(found.reasons)
        else:
            candidates.append(found._replace(node=name))
    if not candidates:
        return f"0/{len(nodes)} nodes are available: {histogram(reasons)}."
    return min(candidates, key=_cost)


def histogram(reasons: Mapping[str, int]) -> str:
    """Return reasons with their counts, sorted as text.

    Source: kubernetes/pkg/scheduler/framework/types.go, FitError.Error.
    """
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))


def _why_not_eligible(info: PodInfo, nodes: Mapping[str, NodeState], rejections: Mapping[str, Rejection]) -> str:
    if info.pod.spec.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    nominated = nodes.get(info.pod.status.nominated_node_name)
    if nominated is None or not rejections[info.pod.status.nominated_node_name].resolvable:
        return ""
    leaving = (one for one in nominated.pods.values() if one.pod.metadata.deletion_timestamp is not None)
    if any(one.priority < info.priority and _is_preempted(one) for one in leaving):
        return "not eligible due to a terminating pod on the nominated node."
    return ""


def _is_preempted(info: PodInfo) -> bool:
    condition = find_condition(info.pod.status.conditions, "DisruptionTarget")
    return condition is not None and (condition.status, condition.reason) == ("True", PREEMPTION_BY_SCHEDULER)


def _victims_on(
    info: PodInfo, state: NodeState, judge: Callable[[NodeState], Rejection | None], budgets: Budgets
) -> Preemption | Rejection:
    """Return the fewest pods whose deletion lets a node take a pod.

    Pods whose deletion violates a budget are spared first, then the most important ones.
    """
    potential = sorted((one for one in state.pods.values() if one.priority < info.priority), key=_importance)
    if not potential:
        return Rejection((NO_VICTIMS,))
    trial = state.copy()
    for one in potential:
        trial.remove(one.key)
    if (rejected := judge(trial)) is not None:
        return rejected
    protected = violating(potential, budgets) if budgets else frozenset[Key]()
    victims: list[PodInfo] = []
    for one in sorted(potential, key=lambda one: one.key not in protected):
        trial.add(one)
        if judge(trial) is not None:
            trial.remove(one.key)
            victims.append(one)
    violations = sum(one.key in protected for one in victims)
    return Preemption("", tuple(sorted(victims, key=_importance)), violations)


def violating(pods: Iterable[PodInfo], budgets: Budgets) -> frozenset[Key]:
    """Return the pods whose deletion, one after the other, violates a budget.

    Args:
        pods: The pods, in the order of their deletion.
        budgets: All budgets. One without a selector, or with an empty one, is for no pod here.

    Source: default_preemption.go, filterPodsWithPDBViolation.
    """
    left = [budget.status.disruptions_allowed or 0 for budget in budgets]
    found: set[Key] = set()
    for pod in (one.pod for one in pods):
        for index, budget in enumerate(budgets):
            if not _counts(budget, pod):
                continue
            left[index] -= 1
            if left[index] < 0:
                found.add(pod.key)
    return frozenset(found)


def _counts(budget: "PodDisruptionBudget", pod: ScheduledPod) -> bool:
    """Return whether the deletion of a pod counts for a budget: that of an evicted pod has been counted already."""
    selector, labels = budget.spec.selector, pod.metadata.labels
    if not labels or selector is None or not (selector.match_labels or selector.match_expressions):
        return False
    if budget.metadata.namespace != pod.metadata.namespace or pod.metadata.name in budget.status.disrupted_pods:
        return False
    return matches(selector, labels)


def _importance(info: PodInfo) -> tuple[int, bool, str]:
    """Order pods by importance: a higher priority, then an earlier start."""
    return (-info.priority, not info.pod.status.start_time, info.pod.status.start_time)


def _cost(candidate: Preemption) -> tuple[int, int, int, int, tuple[int, ...]]:
    """Order candidates: fewest violations, least important first victim, lowest sum, fewest victims, latest start."""
    priorities = [one.priority for one in candidate.victims]
    highest = max(priorities, default=-_PRIORITY_OFFSET)
    starts = [one.pod.status.start_time for one in candidate.victims if one.priority == highest]
    latest = tuple(-ord(letter) for letter in min(starts, default=""))
    total = sum(priority + _PRIORITY_OFFSET for priority in priorities)
    return (candidate.violations, highest, total, len(priorities), latest)
