"""The chart, rendered and applied to an embedded cluster."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kcr.api import codec
from kcr.client import Client
from kcr.controller import Right
from kcr_devcluster.cluster import EmbeddedCluster
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


def manifests(values: Mapping[str, Any] | None = None, **release: Any) -> list[dict[str, Any]]:
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


def documented_metrics() -> dict[str, set[str]]:
    """The series that docs/reference/metrics.md promises, with their labels."""
    text = Path(ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    series: dict[str, set[str]] = {}
    for name, kind, shown in re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \|", text, re.MULTILINE):
        labels = set(re.findall(r"`(\w+)`", shown))
        if kind == "histogram":
            series |= {f"{name}_sum": labels, f"{name}_count": labels, f"{name}_bucket": labels | {"le"}}
        else:
            series[name] = labels
    return series
