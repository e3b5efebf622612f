from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kcr.api.core import Pod, PodStatus
from kcr.api.full.policy_v1 import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from kcr.api.meta import ObjectMeta, PodCondition
from kcr.api.selectors import LabelSelector
from kcr_devcluster.cluster.controllers.disruption import (
    compute_status,
    expected_and_desired,
    failed_status,
    needs_scale,
    selects,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WEB = LabelSelector(match_labels={"app": "web"})


def pod(name: str = "p", *, ready: bool = True, terminating: bool = False, app: str = "web") -> Pod:
    deleted = NOW if terminating else None
    metadata = ObjectMeta(name=name, namespace="default", labels={"app": app}, deletion_timestamp=deleted)
    return Pod(metadata=metadata, status=PodStatus(conditions=(PodCondition(type="Ready", status=str(ready)),)))


def budget(disrupted: dict[str, datetime] | None = None, selector: LabelSelector | None = WEB) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name="b", namespace="default", generation=3),
        spec=PodDisruptionBudgetSpec(selector=selector),
        status=PodDisruptionBudgetStatus(disrupted_pods=disrupted or {}),
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"min_available": 3}, (4, 3), id="minimum"),
        pytest.param({"min_available": "50%"}, (7, 4), id="minimum-is-rounded-up"),
        pytest.param({"max_unavailable": 2}, (7, 5), id="maximum"),
        pytest.param({"max_unavailable": "30%"}, (7, 4), id="maximum-is-rounded-up"),
        pytest.param({"max_unavailable": 9}, (7, 0), id="more-than-all"),
        pytest.param({}, (0, 0), id="neither"),
    ],
)
def test_healthy_pods_wanted_follow_the_spec(spec: dict[str, Any], expected: tuple[int, int]) -> None:
    # Four pods of controllers that want seven.
    assert expected_and_desired(PodDisruptionBudgetSpec(**spec), 4, 7) == expected
    assert needs_scale(PodDisruptionBudgetSpec(**spec)) == (expected[0] == 7)


def test_disruptions_are_the_healthy_pods_beyond_those_wanted() -> None:
    pods = [pod("a"), pod("b"), pod("c"), pod("d", ready=False), pod("e", terminating=True)]
    status = compute_status(budget(), pods, (5, 1), NOW)
    assert (status.current_healthy, status.disruptions_allowed, status.observed_generation) == (3, 2, 3)
    (condition,) = status.conditions
    assert (condition.type, condition.status, condition.reason) == ("DisruptionAllowed", "True", "SufficientPods")
    assert condition.observed_generation == 3


@pytest.mark.parametrize("counts", [(5, 2), (5, 4), (0, 0)], ids=["just-enough", "too-few", "none-expected"])
def test_no_disruption_is_allowed_without_pods_to_spare(counts: tuple[int, int]) -> None:
    status = compute_status(budget(), [pod("a"), pod("b")], counts, NOW)
    assert status.disruptions_allowed == 0
    assert (status.conditions[0].status, status.conditions[0].reason) == ("False", "InsufficientPods")


@pytest.mark.parametrize(
    ("seconds", "terminating", "listed", "healthy"),
    [
        pytest.param(120, False, True, 1, id="evicted"),
        pytest.param(121, False, False, 2, id="not-deleted-in-time"),
        pytest.param(1, True, False, 1, id="terminating"),
    ],
)
def test_evicted_pod_does_not_count_until_its_deletion(
    seconds: int, terminating: bool, listed: bool, healthy: int
) -> None:
    evicted = budget({"a": NOW - timedelta(seconds=seconds), "gone": NOW})
    status = compute_status(evicted, [pod("a", terminating=terminating), pod("b")], (2, 1), NOW)
    assert (set(status.disrupted_pods), status.current_healthy) == ({"a"} if listed else set(), healthy)


def test_failed_sync_allows_no_disruption() -> None:
    before = PodDisruptionBudgetStatus(disruptions_allowed=4, current_healthy=5, observed_generation=2)
    status = failed_status(before, "no scale", NOW)
    assert (status.disruptions_allowed, status.current_healthy, status.observed_generation) == (0, 5, 2)
    assert (status.conditions[0].reason, status.conditions[0].message) == ("SyncFailed", "no scale")


@pytest.mark.parametrize(
    ("selector", "app", "expected"),
    [(WEB, "web", True), (WEB, "db", False), (LabelSelector(), "db", True), (None, "web", False)],
)
def test_budget_is_for_the_pods_it_selects(selector: LabelSelector | None, app: str, expected: bool) -> None:
    assert selects(budget(selector=selector), pod(app=app)) == expected
