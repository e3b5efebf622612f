"""Evictions and PodDisruptionBudgets: what the server counts, and what it answers.

The status of the budgets is the test's here; no disruption controller runs.

Source: kubernetes/pkg/registry/core/pod/storage/eviction.go and eviction_test.go.
"""

from typing import Any

import pytest

from kcr.testing import VirtualClock
from tests.kit.api import Api, pod, pod_binding

pytestmark = pytest.mark.kcr_virtual
PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
ENOUGH = {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}
NONE_LEFT = {**ENOUGH, "disruptionsAllowed": 0, "desiredHealthy": 2}
REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


async def budget(api: Api, status: dict[str, Any], name: str = "foo", **spec: Any) -> None:
    """Create a budget for the pods of an app, with a status."""
    spec = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1, **spec}
    await api.post(BUDGETS, {"metadata": {"name": name}, "spec": spec})
    await api.patch(f"{BUDGETS}/{name}/status", {"status": status})


async def running(api: Api, name: str = "pa", *, ready: str = "True", phase: str = "Running") -> None:
    """Create a pod of the app that runs on a node."""
    await api.post(PODS, pod(name, labels={"app": "web"}))
    await api.post(f"{PODS}/{name}/binding", pod_binding(name))
    conditions = [{"type": "Ready", "status": ready}]
    await api.patch(f"{PODS}/{name}/status", {"status": {"phase": phase, "conditions": conditions}})


async def evict(api: Api, name: str = "pa", query: str = "", **options: Any) -> Any:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options}
    return await api.call("POST", f"{PODS}/{name}/eviction{query}", body)


async def is_terminating(api: Api, name: str = "pa") -> bool:
    return "deletionTimestamp" in (await api.get(f"{PODS}/{name}"))["metadata"]


async def test_eviction_is_counted_by_the_budget(api: Api, kcr_clock: VirtualClock) -> None:
    condition = {
        "type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods", "message": "",
        "lastTransitionTime": "2025-12-01T00:00:00Z", "observedGeneration": 1,
    }  # fmt: skip
    await budget(api, {**ENOUGH, "conditions": [condition]})
    await running(api)
    assert (await evict(api)).status == 201
    status = (await api.get(f"{BUDGETS}/foo"))["status"]
    assert (status["disruptionsAllowed"], status["disruptedPods"]) == (0, {"pa": "2026-01-01T00:00:00Z"})
    (after,) = status["conditions"]
    assert after == {
        **condition, "status": "False", "reason": "InsufficientPods", "lastTransitionTime": "2026-01-01T00:00:00Z"
    }  # fmt: skip
    assert await is_terminating(api)


@pytest.mark.parametrize(
    ("status", "why", "retry_after"),
    [
        pytest.param(NONE_LEFT, "The disruption budget foo needs 2 healthy pods and has 2 currently", 0, id="none"),
        pytest.param(
            {**NONE_LEFT, "observedGeneration": 0},
            "The disruption budget foo is still being processed by the server.", 10, id="not-observed",
        ),
        pytest.param(
            {**NONE_LEFT, "conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed",
                                          "message": "hoge", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
            "The disruption budget foo does not allow evicting pods currently because it failed sync: hoge", 0,
            id="sync-failed",
        ),
        pytest.param(
            {**NONE_LEFT, "currentHealthy": 4, "conditions": [{
                "type": "DisruptionAllowed", "status": "False", "reason": "BarReason", "message": "hoge",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
            "The disruption budget foo does not allow evicting pods currently (BarReason): hoge", 0, id="other-reason",
        ),
        pytest.param(
            {**NONE_LEFT, "currentHealthy": 4},
            "The disruption budget foo does not allow evicting pods currently", 0, id="no-reason",
        ),
    ],
)  # fmt: skip
async def test_budget_without_room_refuses_with_429(
    api: Api, status: dict[str, Any], why: str, retry_after: int
) -> None:
    await budget(api, status)
    await running(api)
    reply = await evict(api)
    assert (reply.status, reply.body["reason"], reply.body["message"]) == (429, "TooManyRequests", REFUSED)
    assert reply.body["details"].pop("retryAfterSeconds", 0) == retry_after
    assert reply.body["details"] == {"causes": [{"reason": "DisruptionBudget", "message": why}]}
    assert not await is_terminating(api)


async def test_pod_of_two_budgets_is_not_evicted(api: Api) -> None:
    await budget(api, ENOUGH)
    await budget(api, ENOUGH, "bar")
    await running(api)
    reply = await evict(api)
    said = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    assert (reply.status, reply.body["message"]) == (500, said)
    assert not await is_terminating(api)


@pytest.mark.parametrize(
    ("phase", "ready", "status", "policy", "evicted"),
    [
        pytest.param("Pending", "False", NONE_LEFT, None, True, id="pending"),
        pytest.param("Running", "False", {**NONE_LEFT, "desiredHealthy": 2}, None, True, id="others-are-healthy"),
        pytest.param("Running", "False", {**NONE_LEFT, "currentHealthy": 1}, None, False, id="too-few-are-healthy"),
        pytest.param("Running", "False", {**NONE_LEFT, "currentHealthy": 1}, "AlwaysAllow", True, id="always"),
        pytest.param("Running", "True", NONE_LEFT, "AlwaysAllow", False, id="always-and-ready"),
    ],
)
async def test_pod_that_is_not_ready_may_be_evicted(
    api: Api, phase: str, ready: str, status: dict[str, Any], policy: str | None, evicted: bool
) -> None:
    await budget(api, status, **({"unhealthyPodEvictionPolicy": policy} if policy else {}))
    await running(api, ready=ready, phase=phase)
    assert (await evict(api)).status == (201 if evicted else 429)
    assert (await api.get(f"{BUDGETS}/foo"))["status"].get("disruptedPods") is None


@pytest.mark.parametrize("selector", [{}, None], ids=["empty", "absent"])
async def test_empty_selector_is_for_every_pod(api: Api, selector: dict[str, Any] | None) -> None:
    await budget(api, NONE_LEFT, selector=selector)
    await running(api)
    assert (await evict(api)).status == (201 if selector is None else 429)


async def test_eviction_that_comes_to_nothing_is_not_counted(api: Api) -> None:
    await budget(api, ENOUGH)
    await running(api)
    assert (await evict(api, query="?dryRun=All")).status == 201
    assert (await evict(api, preconditions={"uid": "zzz"})).status == 409
    assert (await api.get(f"{BUDGETS}/foo"))["status"]["disruptionsAllowed"] == 1


async def test_too_many_unconfirmed_evictions_forbid_more(api: Api) -> None:
    await budget(api, {**ENOUGH, "disruptedPods": {f"p{number}": "2026-01-01T00:00:00Z" for number in range(2001)}})
    await running(api)
    reply = await evict(api)
    why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
    assert reply.status == 403
    assert reply.body["message"] == f'poddisruptionbudget.policy "foo" is forbidden: {why}'
