"""Policies of admission and their bindings, as tests write them."""

from collections.abc import Sequence
from typing import Any

from tests.kit.api import Api

GROUP = "/apis/admissionregistration.k8s.io/v1"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def matched(
    resource: str = "configmaps", group: str = "", operations: Sequence[str] = ("CREATE", "UPDATE"), **more: Any
) -> dict[str, Any]:
    """Return `matchConstraints` for one resource."""
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": operations, "resources": [resource]}
    return {"resourceRules": [rule], **more}


def validation(expression: str, **more: Any) -> dict[str, Any]:
    """Return a validation."""
    return {"expression": expression, **more}


def configuration(expression: str) -> dict[str, Any]:
    """Return a mutation by an apply configuration."""
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def json_patch(expression: str) -> dict[str, Any]:
    """Return a mutation by a JSON patch."""
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def deployment(name: str, replicas: int, kind: str = "Deployment") -> dict[str, Any]:
    """Return a Deployment, or a ReplicaSet."""
    labels = {"app": "nginx"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "nginx", "image": "nginx:latest"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"kind": kind, "apiVersion": "apps/v1", "metadata": {"name": name, "labels": labels}, "spec": spec}


async def validate(api: Api, *validations: dict[str, Any], name: str = "p", **spec: Any) -> None:
    """Create a ValidatingAdmissionPolicy of ConfigMaps, or as `spec` says."""
    body = {"matchConstraints": matched(), "validations": validations, **spec}
    await api.post(f"{GROUP}/validatingadmissionpolicies", {"metadata": {"name": name}, "spec": body})


async def bind(api: Api, *actions: str, name: str = "b", policy: str = "p", **spec: Any) -> None:
    """Bind a ValidatingAdmissionPolicy."""
    body = {"policyName": policy, "validationActions": actions or ["Deny"], **spec}
    await api.post(f"{GROUP}/validatingadmissionpolicybindings", {"metadata": {"name": name}, "spec": body})


async def mutate(api: Api, *mutations: dict[str, Any], name: str = "p", **spec: Any) -> None:
    """Create a MutatingAdmissionPolicy of ConfigMaps, or as `spec` says, and bind it."""
    body = {"matchConstraints": matched(), "mutations": mutations, "reinvocationPolicy": "Never", **spec}
    await api.post(f"{GROUP}/mutatingadmissionpolicies", {"metadata": {"name": name}, "spec": body})
    binding = {"metadata": {"name": f"b-{name}"}, "spec": {"policyName": name}}
    await api.post(f"{GROUP}/mutatingadmissionpolicybindings", binding)
