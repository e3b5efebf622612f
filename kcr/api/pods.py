"""Pods for controllers that own some: what a pod is by its status, which are deleted first, and pods from templates."""

from collections.abc import Iterable
from typing import Any

import msgspec

from kcr.api import codec
from kcr.api.conditions import find_condition, is_condition_true
from kcr.api.core import ContainerStatus, Pod
from kcr.api.meta import Object, ObjectMeta, Resource

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def is_terminal(pod: Pod) -> bool:
    """Return whether all containers have stopped for good: the phase is Succeeded or Failed."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_active(pod: Pod) -> bool:
    """Return whether the pod runs or may still run. Unknown phases count as active."""
    return not is_terminal(pod) and pod.metadata.deletion_timestamp is None


def is_terminating(pod: Pod) -> bool:
    """Return whether the pod was deleted and is not terminal yet."""
    return not is_terminal(pod) and pod.metadata.deletion_timestamp is not None


def is_ready(pod: Pod) -> bool:
    """Return whether the node reports the pod ready."""
    return is_condition_true(pod.status.conditions, "Ready")


def sidecars(pod: Pod) -> tuple[ContainerStatus, ...]:
    """Return the statuses of the init containers that run beside the others."""
    names = {container.name for container in pod.spec.init_containers if container.restart_policy == "Always"}
    return tuple(status for status in pod.status.init_container_statuses if status.name in names)


def ranked(active: Iterable[Pod]) -> list[Pod]:
    """Return active pods in the order in which a controller deletes surplus ones: those that got least far first.

    A pod without a node goes before one with, then Pending before Unknown before Running, not ready before ready,
    the shorter ready before the longer, more restarts before fewer, and the newer before the older.

    Source: kubernetes/pkg/controller/controller_utils.go, ActivePods.
    """
    return sorted(active, key=_progress)


def _progress(pod: Pod) -> tuple[Any, ...]:
    """Rank a pod by how much would be lost with it; the first place that differs decides."""
    ready = find_condition(pod.status.conditions, "Ready")
    since = ready.last_transition_time if ready is not None and ready.status == "True" else None
    created = pod.metadata.creation_timestamp
    return (
        bool(pod.spec.node_name),
        _PHASES.get(pod.status.phase, 0),
        is_ready(pod),
        (False, 0.0) if since is None else (True, -since.timestamp()),
        -_most_restarts(pod.status.container_statuses),
        -_most_restarts(sidecars(pod)),
        (False, 0.0) if created is None else (True, -created.timestamp()),
    )


def _most_restarts(statuses: Iterable[ContainerStatus]) -> int:
    return max((status.restart_count for status in statuses), default=0)


class PodToCreate(Resource, api_version="v1", kind="Pod", plural="pods"):
    """A pod whose spec is carried as it stands in a template."""

    spec: msgspec.Raw


class _PodTemplate(Object):
    metadata: ObjectMeta = ObjectMeta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")


def pod_from_template(template: msgspec.Raw) -> PodToCreate:
    """Return the pod that a pod template describes: its labels, annotations and finalizers, and its spec whole.

    Args:
        template: A `PodTemplateSpec` as JSON, such as `spec.template` of a Deployment.

    Source: kubernetes/pkg/controller/controller_utils.go, GetPodFromTemplate.
    """
    read = codec.decode(_PodTemplate, bytes(template))
    asked = read.metadata
    metadata = ObjectMeta(labels=asked.labels, annotations=asked.annotations, finalizers=asked.finalizers)
    return PodToCreate(metadata=metadata, spec=read.spec.copy())
