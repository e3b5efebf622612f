"""The chart, rendered and applied to an embedded cluster."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kcr.api import codec
from kcr.client import Client
from kcr.cluster import EmbeddedCluster
from kcr.controller import Right
from tests.kit.documents import ROOT
from tools.chart import render
from tools.helm import find_helm

NEEDS_HELM = pytest.mark.skipif(find_helm() is None, reason="no helm: `python -m tools.helm` brings it where it can")
# Kinds of the Prometheus operator, as far as the chart uses them.
OPERATOR = ROOT / "tests" / "deployment" / "prometheus_operator.yaml"
_CLUSTER_WIDE = ("Namespace", "ClusterRole", "ClusterRoleBinding")
_PLURALS = {"NetworkPolicy": "networkpolicies"}


def documents(text: str) -> list[dict[str, Any]]:
    """The manifests in a rendering, without empty documents."""
    return [found for found in yaml.safe_load_all(text) if found]


def manifests(values: Mapping[str, Any] | None = None, **release: str) -> list[dict[str, Any]]:
    """What helm renders with these values."""
    return documents(render(yaml.safe_dump(dict(values or {})), **release))


def of_kind(found: Iterable[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [manifest for manifest in found if manifest["kind"] == kind]


def rights_in(roles: Iterable[Mapping[str, Any]]) -> set[Right]:
    """All that roles grant, on kinds of namespaces."""
    return {
        Right(group, resource, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule.get("apiGroups", ())
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def collection(manifest: Mapping[str, Any]) -> str:
    """The path to create the object at."""
    version, kind = manifest["apiVersion"], manifest["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = _PLURALS.get(kind, f"{kind.lower()}s")
    return (
        f"{root}/{plural}"
        if kind in _CLUSTER_WIDE
        else f"{root}/namespaces/{manifest['metadata']['namespace']}/{plural}"
    )


async def install(client: Client, found: Iterable[Mapping[str, Any]]) -> None:
    """Create all objects under strict field validation, and the namespaces that they are in."""
    found = list(found)
    made = {manifest["metadata"]["name"] for manifest in found if manifest["kind"] == "Namespace"}
    needed = {manifest["metadata"].get("namespace", "default") for manifest in found} - made - {"default"}
    namespaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in sorted(needed)]
    for manifest in [*namespaces, *found]:
        await client.request("POST", f"{collection(manifest)}?fieldValidation=Strict", codec.encode(manifest))


def account(cluster: EmbeddedCluster, found: Iterable[Mapping[str, Any]]) -> Client:
    """A client with the identity of the pods of the chart's Deployment."""
    (deployment,) = [manifest for manifest in found if manifest["kind"] == "Deployment"]
    name = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    namespace = deployment["metadata"]["namespace"]
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return cluster.client_as(f"system:serviceaccount:{namespace}:{name}", groups)


def metrics_in(expression: str) -> set[str]:
    """The metrics that a query of Prometheus names: what stands before braces."""
    return set(re.findall(r"([a-z][a-z0-9_]*)\{", expression))


def documented_metrics() -> set[str]:
    """The series that docs/reference/metrics.md promises."""
    text = Path(ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    series = set()
    for name, kind in re.findall(r"^\| `(\w+)` \| (\w+) \|", text, re.MULTILINE):
        series |= {f"{name}_{end}" for end in ("bucket", "sum", "count")} if kind == "histogram" else {name}
    return series
