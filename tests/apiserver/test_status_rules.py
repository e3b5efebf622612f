"""Validation of writes to the status of workloads, budgets, Services and Ingresses.

Source: kubernetes/pkg/apis/apps/validation/validation_test.go, TestValidateDeploymentStatus,
TestValidateReplicaSetStatus, TestValidateStatefulSetStatus, TestValidateDaemonSetStatusUpdate;
pkg/apis/core/validation/validation_test.go, TestValidateLoadBalancerStatus;
pkg/apis/policy/validation/validation_test.go, TestValidatePodDisruptionBudgetStatus;
pkg/apis/networking/validation/validation_test.go, TestValidateIngressStatusUpdate.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.kit.api import Api
from tests.kit.workloads import LABELS, POD, deployment, replica_set

pytestmark = pytest.mark.kcr_virtual
CONTROLLER = {
    "metadata": {"name": "web"}, "spec": {"template": {"metadata": {"labels": LABELS}, "spec": POD}},
}  # fmt: skip
CONDITION = {
    "type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods", "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}  # fmt: skip
# Objects named web by resource, each valid.
OBJECTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "deployments": ("/apis/apps/v1", deployment()),
    "replicasets": ("/apis/apps/v1", replica_set()),
    "replicationcontrollers": ("/api/v1", CONTROLLER),
    "statefulsets": ("/apis/apps/v1", deployment()),
    "daemonsets": ("/apis/apps/v1", deployment()),
    "poddisruptionbudgets": ("/apis/policy/v1", {"metadata": {"name": "web"}, "spec": {"minAvailable": 1}}),
    "services": ("/api/v1", {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}),
    "services LoadBalancer": (
        "/api/v1", {"metadata": {"name": "web"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}},
    ),
    "ingresses": (
        "/apis/networking.k8s.io/v1",
        {"metadata": {"name": "web"}, "spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 1}}}}},
    ),
}  # fmt: skip


def balanced(**point: Any) -> dict[str, Any]:
    """The status of something with one address."""
    return {"loadBalancer": {"ingress": [point]}}


def conditioned(**condition: Any) -> dict[str, Any]:
    """The status of a budget with one condition; a field of it that is None is left out."""
    given = {**CONDITION, **condition}
    return {"conditions": [{name: value for name, value in given.items() if value is not None}]}


async def created(api: Api, of: str) -> str:
    """Create an object, and return the target of its status."""
    resource, (group, obj) = of.partition(" ")[0], OBJECTS[of]
    await api.post(f"{group}/namespaces/default/{resource}", obj)
    return f"{group}/namespaces/default/{resource}/web/status"


@pytest.mark.parametrize(
    ("of", "status", "field", "words"),
    [
        pytest.param(
            "poddisruptionbudgets", conditioned(message="x" * 32_769), "conditions[0].message",
            "may not be more than 32768 bytes", id="condition-message",
        ),
    ],
)  # fmt: skip
async def test_invalid_status_is_refused_by_field(
    api: Api, of: str, status: dict[str, Any], field: str, words: str
) -> None:
    target = await created(api, of)
    reply = await api.call("PATCH", target, {"status": status}, content_type="application/merge-patch+json")
    assert reply.status == 422
    (cause,) = [one for one in reply.body["details"]["causes"] if one["field"] == f"status.{field}"]
    assert cause["message"].endswith(words)


async def test_collisions_are_never_counted_down(api: Api) -> None:
    target = await created(api, "deployments")
    await api.patch(target, {"status": {"collisionCount": 2}})
    for count in (1, None):
        body = {"status": {"collisionCount": count}}
        reply = await api.call("PATCH", target, body, content_type="application/merge-patch+json")
        assert reply.body["details"]["causes"][0]["message"] == f"Invalid value: {count or 0}: cannot be decremented"


async def test_addresses_of_load_balancers_have_a_mode(api: Api) -> None:
    target = await created(api, "services LoadBalancer")
    written = await api.patch(target, {"status": balanced(ip="1.2.3.4")})
    assert written["status"] == balanced(ip="1.2.3.4", ipMode="VIP")
