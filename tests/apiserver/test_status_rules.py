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
NEGATIVE = "must be greater than or equal to 0"
BEYOND, BEYOND_READY = "cannot be greater than status.replicas", "cannot be greater than readyReplicas"
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
        pytest.param("deployments", {"replicas": 1, "readyReplicas": 2}, "readyReplicas", BEYOND, id="deployment"),
        pytest.param("deployments", {"updatedReplicas": 1}, "updatedReplicas", BEYOND, id="deployment-updated"),
        pytest.param(
            "deployments", {"replicas": 3, "readyReplicas": 1, "availableReplicas": 2}, "availableReplicas",
            BEYOND_READY, id="deployment-available",
        ),
        pytest.param("deployments", {"unavailableReplicas": -1}, "unavailableReplicas", NEGATIVE, id="negative"),
        pytest.param("deployments", {"observedGeneration": -1}, "observedGeneration", NEGATIVE, id="generation"),
        pytest.param("deployments", {"collisionCount": -1}, "collisionCount", NEGATIVE, id="collisions"),
        pytest.param("replicasets", {"fullyLabeledReplicas": 1}, "fullyLabeledReplicas", BEYOND, id="replica-set"),
        pytest.param(
            "replicasets", {"replicas": 1, "availableReplicas": 1}, "availableReplicas", BEYOND_READY,
            id="replica-set-available",
        ),
        pytest.param("replicationcontrollers", {"readyReplicas": 1}, "readyReplicas", BEYOND, id="controller"),
        pytest.param("replicationcontrollers", {"replicas": -1}, "replicas", NEGATIVE, id="controller-negative"),
        pytest.param("statefulsets", {"replicas": 1, "currentReplicas": 2}, "currentReplicas", BEYOND, id="stateful"),
        pytest.param("daemonsets", {"numberReady": -1}, "numberReady", NEGATIVE, id="daemon-set"),
        pytest.param("poddisruptionbudgets", {"disruptionsAllowed": -1}, "disruptionsAllowed", NEGATIVE, id="budget"),
        pytest.param(
            "poddisruptionbudgets", conditioned(status=None), "conditions[0].status",
            'supported values: "False", "True", "Unknown"', id="condition-without-status",
        ),
        pytest.param(
            "poddisruptionbudgets", conditioned(reason=None), "conditions[0].reason", "must be set",
            id="condition-without-reason",
        ),
        pytest.param(
            "poddisruptionbudgets", conditioned(reason="a b"), "conditions[0].reason",
            "regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')", id="condition-reason",
        ),
        pytest.param(
            "poddisruptionbudgets", conditioned(lastTransitionTime=None), "conditions[0].lastTransitionTime",
            "must be set", id="condition-without-time",
        ),
        pytest.param(
            "poddisruptionbudgets", conditioned(observedGeneration=-1), "conditions[0].observedGeneration",
            "must be greater than or equal to zero", id="condition-generation",
        ),
        pytest.param(
            "poddisruptionbudgets", conditioned(message="x" * 32_769), "conditions[0].message",
            "may not be more than 32768 bytes", id="condition-message",
        ),
        pytest.param(
            "services", balanced(ip="1.2.3.4"), "loadBalancer.ingress",
            'may only be used when `spec.type` is "LoadBalancer"', id="cluster-ip",
        ),
        pytest.param(
            "services LoadBalancer", balanced(ip="x"), "loadBalancer.ingress[0].ip",
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)", id="service-address",
        ),
        pytest.param(
            "services LoadBalancer", balanced(hostname="h", ipMode="VIP"), "loadBalancer.ingress[0].ipMode",
            "may not be specified when `ip` is not set", id="mode-of-nothing",
        ),
        pytest.param(
            "services LoadBalancer", balanced(ip="1.2.3.4", ipMode="x"), "loadBalancer.ingress[0].ipMode",
            'supported values: "Proxy", "VIP"', id="mode",
        ),
        pytest.param(
            "ingresses", balanced(ip="x"), "loadBalancer.ingress[0].ip",
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)", id="ingress-address",
        ),
        pytest.param(
            "ingresses", balanced(hostname="1.2.3.4"), "loadBalancer.ingress[0].hostname",
            "must be a DNS name, not an IP address", id="ingress-host",
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


@pytest.mark.parametrize(
    ("of", "status"),
    [
        pytest.param("deployments", {"replicas": 2, "availableReplicas": 2}, id="before-ready-was-counted"),
        pytest.param("statefulsets", {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}, id="stateful-set"),
        pytest.param("poddisruptionbudgets", conditioned(), id="condition"),
        pytest.param("services LoadBalancer", balanced(hostname="a.example.com"), id="host"),
        pytest.param("ingresses", balanced(ip="2001:db8::1", hostname="a"), id="ingress"),
    ],
)
async def test_valid_status_is_written(api: Api, of: str, status: dict[str, Any]) -> None:
    target = await created(api, of)
    written = (await api.patch(target, {"status": status}))["status"]
    assert {name: written[name] for name in status} == status


async def test_types_of_conditions_occur_once(api: Api) -> None:
    target = await created(api, "poddisruptionbudgets")
    reply = await api.call(
        "PATCH", target, {"status": {"conditions": [CONDITION, CONDITION]}}, content_type="application/merge-patch+json"
    )
    assert [one["field"] for one in reply.body["details"]["causes"]] == ["status.conditions[1].type"]


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
