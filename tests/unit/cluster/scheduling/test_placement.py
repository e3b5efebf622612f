from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from kcr.api.full.policy_v1 import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from kcr.api.meta import ObjectMeta
from kcr.api.selectors import LabelSelector, Requirement
from kcr_devcluster.cluster.scheduling.cluster_state import PodInfo
from kcr_devcluster.cluster.scheduling.placement import Unschedulable, find_node
from kcr_devcluster.cluster.scheduling.preemption import Preemption
from tests.kit.scheduling import node_state, pod_info

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
NONE: dict[Any, Any] = {}


def preempted(found: str | Unschedulable) -> tuple[str, list[str]]:
    """The node to free, and the names of the victims."""
    assert isinstance(found, Unschedulable)
    assert found.preemption is not None
    return found.preemption.node, [victim.key.name for victim in found.preemption.victims]


def started(name: str, cpu: str, priority: int, minute: int = 0) -> PodInfo:
    return pod_info(name, cpu=cpu, priority=priority, status={"startTime": f"2026-01-01T00:{minute:02}:00Z"})


def test_pods_are_spread_over_equal_nodes() -> None:
    nodes = {name: node_state(name) for name in ("a", "b", "c")}
    places = []
    for number in range(6):
        info = pod_info(str(number))
        place = find_node(info, nodes, NONE)
        assert isinstance(place, str)
        nodes[place].add(info)
        places.append(place)
    assert sorted(places) == ["a", "a", "b", "b", "c", "c"]


def test_emptier_node_is_better() -> None:
    nodes = {"a": node_state("a", pod_info("x", cpu="8")), "b": node_state("b", pod_info("y", cpu="2"))}
    assert find_node(pod_info(cpu="1"), nodes, NONE) == "b"


def test_node_with_a_taint_to_avoid_comes_last() -> None:
    avoid = [{"key": "old", "effect": "PreferNoSchedule"}]
    nodes = {"a": node_state("a", taints=avoid), "b": node_state("b", pod_info("x", cpu="8"))}
    assert find_node(pod_info(cpu="1"), nodes, NONE) == "b"
    assert find_node(pod_info(cpu="3"), nodes, NONE) == "a"


def test_preferred_node_comes_first() -> None:
    term = {"weight": 10, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    nodes = {"a": node_state("a"), "b": node_state("b", pod_info("x", cpu="4"), labels={"disk": "ssd"})}
    assert find_node(pod_info(affinity=affinity), nodes, NONE) == "b"


@pytest.mark.parametrize(
    ("pod", "nodes", "message"),
    [
        pytest.param(
            {"cpu": "1000"}, {"a": {}},
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
            "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
            id="larger-than-the-node",
        ),
        pytest.param(
            {"cpu": "6"}, {"a": {"cpu": "5"}, "b": {"unschedulable": True}},
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. no new claims to deallocate, "
            "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
            "1 Preemption is not helpful for scheduling.",
            id="sorted-by-count-and-reason",
        ),
        pytest.param(
            {"cpu": "6", "priority": 5, "preemptionPolicy": "Never"}, {"a": {"cpu": "5"}},
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
            "preemption: not eligible due to preemptionPolicy=Never.",
            id="preempts-never",
        ),
    ],
)  # fmt: skip
def test_message_says_what_every_node_lacks(
    pod: dict[str, Any], nodes: dict[str, dict[str, Any]], message: str
) -> None:
    # kubernetes/pkg/scheduler/framework/types.go, FitError.Error.
    states = {}
    for name, traits in nodes.items():
        cpu = traits.pop("cpu", "")
        states[name] = node_state(name, *([pod_info("x", cpu=cpu)] if cpu else []), **traits)
    assert find_node(pod_info(**pod), states, NONE) == Unschedulable(message)


def test_fewest_and_least_important_pods_are_deleted() -> None:
    state = node_state("n", started("low", "4", 1), started("lower", "4", 0), started("tiny", "1", 1))
    found = find_node(pod_info(cpu="5", priority=9), {"n": state}, NONE)
    assert preempted(found) == ("n", ["lower"])


def test_pod_that_started_later_is_deleted_first() -> None:
    state = node_state("n", started("new", "5", 0, 2), started("old", "5", 0, 1))
    assert preempted(find_node(pod_info(cpu="5", priority=9), {"n": state}, NONE)) == ("n", ["new"])


@pytest.mark.parametrize(
    ("a", "b", "better"),
    [
        pytest.param([("x", "10", 3)], [("y", "5", 2), ("z", "5", 2)], "b", id="lower-priority"),
        pytest.param([("x", "5", 2), ("w", "5", 2)], [("y", "10", 2)], "b", id="fewer"),
        pytest.param([("x", "10", 2, 1)], [("y", "10", 2, 2)], "b", id="started-later"),
        pytest.param([("x", "10", 2)], [("y", "10", 2)], "a", id="equal"),
    ],
)
def test_node_with_the_cheapest_victims_is_freed(a: list[Any], b: list[Any], better: str) -> None:
    nodes = {"a": node_state("a", *(started(*one) for one in a)), "b": node_state("b", *(started(*one) for one in b))}
    assert preempted(find_node(pod_info(cpu="10", priority=9), nodes, NONE))[0] == better


def test_node_whose_victims_violate_no_budget_is_freed() -> None:
    # kubernetes/pkg/scheduler/framework/preemption/preemption.go, pickOneNodeForPreemption.
    protected = pod_info("x", cpu="10", priority=1, labels={"app": "web"})
    nodes = {"a": node_state("a", protected), "b": node_state("b", started("y", "10", 2))}
    budget = PodDisruptionBudget(
        metadata=ObjectMeta(name="web", namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": "web"})),
    )
    assert preempted(find_node(pod_info(cpu="10", priority=9), nodes, NONE, budgets=[budget])) == ("b", ["y"])
    allowing = replace(budget, status=PodDisruptionBudgetStatus(disruptions_allowed=1))
    assert preempted(find_node(pod_info(cpu="10", priority=9), nodes, NONE, budgets=[allowing])) == ("a", ["x"])
    evicted = replace(budget, status=PodDisruptionBudgetStatus(disrupted_pods={"x": MOMENT}))
    assert preempted(find_node(pod_info(cpu="10", priority=9), nodes, NONE, budgets=[evicted])) == ("a", ["x"])


IN_WEB = Requirement(key="app", operator="In", values=("web",))
NO_APP = Requirement(key="app", operator="DoesNotExist")


@pytest.mark.parametrize(
    ("labels", "selector", "namespace", "is_protected"),
    [
        pytest.param({"app": "web"}, LabelSelector(match_expressions=(IN_WEB,)), "default", True, id="expressions"),
        pytest.param({"app": "web"}, LabelSelector(match_expressions=(IN_WEB,)), "other", False, id="other-namespace"),
        pytest.param({"a": "b"}, LabelSelector(match_expressions=(NO_APP,)), "default", True, id="not-labelled-so"),
        pytest.param({}, LabelSelector(match_expressions=(NO_APP,)), "default", False, id="pod-without-labels"),
        pytest.param({"app": "web"}, LabelSelector(), "default", False, id="empty-selector"),
        pytest.param({"app": "web"}, None, "default", False, id="no-selector"),
    ],
)
def test_budget_protects_the_pods_that_it_selects(
    labels: dict[str, str], selector: LabelSelector | None, namespace: str, is_protected: bool
) -> None:
    # default_preemption.go, filterPodsWithPDBViolation.
    nodes = {
        "a": node_state("a", pod_info("x", cpu="10", priority=1, labels=labels)),
        "b": node_state("b", started("y", "10", 2)),
    }
    budget = PodDisruptionBudget(
        metadata=ObjectMeta(name="web", namespace=namespace), spec=PodDisruptionBudgetSpec(selector=selector)
    )
    node, _ = preempted(find_node(pod_info(cpu="10", priority=9), nodes, NONE, budgets=[budget]))
    assert node == ("b" if is_protected else "a")


def test_pods_of_equal_priority_are_spared() -> None:
    found = find_node(pod_info(cpu="5", priority=1), {"n": node_state("n", started("x", "8", 1))}, NONE)
    assert isinstance(found, Unschedulable)
    assert found.preemption is None


def test_node_freed_for_one_pod_is_not_for_a_lesser_one() -> None:
    first = pod_info("first", cpu="8", priority=9)
    nominated = {first.key: ("n", first)}
    nodes = {"n": node_state("n")}
    assert isinstance(find_node(pod_info("lesser", cpu="8"), nodes, nominated), Unschedulable)
    assert find_node(pod_info("greater", cpu="8", priority=10), nodes, nominated) == "n"
    assert find_node(first, nodes, nominated) == "n"


def leaving(priority: int = 0, reason: str = "PreemptionByScheduler") -> PodInfo:
    """A pod that is being deleted, and why."""
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    victim = pod_info("victim", cpu="8", priority=priority, status={"conditions": [condition]})
    metadata = replace(victim.pod.metadata, deletion_timestamp=MOMENT)
    return victim._replace(pod=replace(victim.pod, metadata=metadata))


def test_no_more_is_deleted_while_victims_end() -> None:
    pod = pod_info(cpu="8", priority=9, status={"nominatedNodeName": "n"})
    found = find_node(pod, {"n": node_state("n", leaving())}, NONE)
    assert isinstance(found, Unschedulable)
    assert found.message.endswith("preemption: not eligible due to a terminating pod on the nominated node.")


@pytest.mark.parametrize(
    ("other", "nodes"),
    [
        pytest.param(leaving(), {"unschedulable": True}, id="node-was-cordoned"),
        pytest.param(leaving(reason="DeletionByTaintManager"), {}, id="deleted-by-others"),
        pytest.param(leaving(priority=9), {}, id="no-victim-of-this-pod"),
    ],
)
def test_pod_whose_nominated_node_was_taken_preempts_elsewhere(other: PodInfo, nodes: dict[str, Any]) -> None:
    # default_preemption.go, PodEligibleToPreemptOthers.
    pod = pod_info(cpu="8", priority=9, status={"nominatedNodeName": "n"})
    states = {"n": node_state("n", other, **nodes), "o": node_state("o", started("x", "8", -1))}
    assert preempted(find_node(pod, states, {pod.key: ("n", pod)})) == ("o", ["x"])


def test_nominated_pod_takes_another_node_when_its_own_was_taken() -> None:
    pod = pod_info("first", cpu="8", priority=9)
    nodes = {"n": node_state("n", pod_info("x", cpu="8", priority=10)), "o": node_state("o")}
    assert find_node(pod, nodes, {pod.key: ("n", pod)}) == "o"


def test_nominated_pod_takes_its_own_node_before_better_ones() -> None:
    pod = pod_info("first", cpu="1", priority=9)
    nodes = {"better": node_state("better"), "n": node_state("n", pod_info("x", cpu="5")), "also": node_state("also")}
    assert find_node(pod, nodes, {pod.key: ("n", pod)}) == "n"


def test_victims_come_in_the_order_of_importance() -> None:
    state = node_state("n", started("a", "5", 0), started("b", "5", 1))
    found = find_node(pod_info(cpu="10", priority=9), {"n": state}, NONE)
    assert isinstance(found, Unschedulable)
    assert isinstance(found.preemption, Preemption)
    assert preempted(found) == ("n", ["b", "a"])
