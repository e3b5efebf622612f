"""Deployments and ReplicaSets: manifests, and values for decisions."""

from collections.abc import Mapping
from typing import Any

import msgspec

from kcr.api.apps import (
    Deployment,
    DeploymentCondition,
    DeploymentSpec,
    DeploymentStatus,
    DeploymentStrategy,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicaSetStatus,
    RollingUpdate,
)
from kcr.api.selectors import LabelSelector
from kcr.testing import build
from kcr_devcluster.cluster.workloads.revisions import DESIRED_REPLICAS, MAX_REPLICAS, REVISION

LABELS = {"app": "web"}
POD = {"containers": [{"name": "web", "image": "web:latest"}]}


def deployment(*, pod: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A Deployment named web; fields of its spec, and of the spec of its pods."""
    template = {"metadata": {"labels": LABELS}, "spec": {**POD, **(pod or {})}}
    given: dict[str, Any] = {"selector": {"matchLabels": LABELS}, "template": template, **spec}
    return {"metadata": {"name": "web"}, "spec": given}


def replica_set(**spec: Any) -> dict[str, Any]:
    """A ReplicaSet named web."""
    return deployment(**spec)


def template_of(image: str, **labels: str) -> msgspec.Raw:
    """A pod template."""
    body = {"metadata": {"labels": LABELS | labels}, "spec": {"containers": [{"name": "web", "image": image}]}}
    return msgspec.Raw(msgspec.json.encode(body))


def deployed(
    replicas: int = 10,
    *,
    surge: int | str = "25%",
    unavailable: int | str = "25%",
    status: DeploymentStatus | None = None,
    **spec: Any,
) -> Deployment:
    """A Deployment of image v2, for decisions."""
    update = RollingUpdate(max_surge=surge, max_unavailable=unavailable)
    given: dict[str, Any] = {
        "strategy": DeploymentStrategy(type="RollingUpdate", rolling_update=update),
        "selector": LabelSelector(match_labels=LABELS),
        "template": template_of("v2"),
        "progress_deadline_seconds": 600,
    }
    return Deployment(
        metadata=build.metadata("web", generation=1),
        spec=DeploymentSpec(replicas=replicas, **given | spec),
        status=status or DeploymentStatus(),
    )


def sized(name: str, replicas: int, available: int | None = None, **annotations: int | None) -> ReplicaSet:
    """A ReplicaSet, all of whose pods are available unless said otherwise.

    Args:
        name: Its name; the template has it as image.
        replicas: How many pods it is to have, and has.
        available: How many are available.
        annotations: `revision`, `desired` and `most`.
    """
    names = {"revision": REVISION, "desired": DESIRED_REPLICAS, "most": MAX_REPLICAS}
    said = {names[key]: str(value) for key, value in annotations.items() if value is not None}
    count = replicas if available is None else available
    return ReplicaSet(
        metadata=build.metadata(name, generation=1, annotations=said),
        spec=ReplicaSetSpec(replicas=replicas, template=template_of(name)),
        status=ReplicaSetStatus(
            replicas=replicas, ready_replicas=count, available_replicas=count, observed_generation=1
        ),
    )


def said(conditions: tuple[DeploymentCondition, ...]) -> dict[str, tuple[str, str]]:
    """Status and reason of conditions by type."""
    return {one.type: (one.status, one.reason) for one in conditions}
