"""Helpers for owners of pods: predicates of the status, deletion order, and pods from templates."""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from kcr.api import codec
from kcr.api.batch import COMPLETION_INDEX
from kcr.api.conditions import find_condition, is_condition_true
from kcr.api.core import ContainerStatus, Pod
from kcr.api.durations import parse_int
from kcr.api.meta import Object, ObjectMeta, Resource

# An annotation: of two pods alike so far, the one of the lower cost is deleted first.
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

# Source: kubernetes/pkg/apis/core/helper/helpers.go, validFirstDigit.
_COST = re.compile("-[0-9]+|0|[1-9][0-9]*")
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def annotated_number(pod: Pod, annotation: str) -> int | None:
    """Return the number that an annotation of a pod says, or None when it says none, or one below zero."""
    number = parse_int(pod.metadata.annotations.get(annotation, ""))
    return number if number is not None and number >= 0 else None


def parse_deletion_cost(text: str) -> int | None:
    """Return the deletion cost that an annotation says, or None when it says none."""
    return parse_int(text, 32) if _COST.fullmatch(text) else None


def completion_index(pod: Pod) -> int | None:
    """Return the completion index that the pod's annotation says, or None when it says none."""
    return annotated_number(pod, COMPLETION_INDEX)


def is_terminal(pod: Pod) -> bool:
    """Return whether all containers have ended permanently: the phase is Succeeded or Failed."""
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


def available_in(pod: Pod, min_ready_seconds: int, now: datetime) -> timedelta | None:
    """Return how long until a pod has been ready for `minReadySeconds`, zero when it has; None while it is not ready.

    Args:
        pod: The pod.
        min_ready_seconds: For how many seconds it must have been ready.
        now: The moment to judge at, timezone-aware UTC.

    Source: kubernetes/pkg/api/v1/pod/util.go, IsPodAvailable.
    """
    ready = find_condition(pod.status.conditions, "Ready")
    if ready is None or ready.status != "True":
        return None
    since = ready.last_transition_time
    if min_ready_seconds <= 0 or since is None:
        return timedelta()
    return max(timedelta(), since + timedelta(seconds=min_ready_seconds) - now)


class ReplicaCounts(NamedTuple):
    """Numbers of pods by state, for the status of an owner of equal pods.

    Attributes:
        active: They run or may still run.
        ready: Active ones that are ready.
        available: Active ones that have been ready for long enough.
        terminating: Deleted ones that are not terminal yet.
        next_available: When the next ready pod becomes available; None when no pod waits for that.
    """

    active: int
    ready: int
    available: int
    terminating: int
    next_available: timedelta | None


def count_replicas(pods: Iterable[Pod], min_ready_seconds: int, now: datetime) -> ReplicaCounts:
    """Count the pods of one owner.

    Args:
        pods: All its pods; terminal ones count as nothing.
        min_ready_seconds: For how many seconds a pod must have been ready to count as available.
        now: The moment to judge at, timezone-aware UTC.

    Source: kubernetes/pkg/controller/replicaset/replica_set_utils.go, calculateStatus.
    """
    pods = tuple(pods)
    waits = [available_in(pod, min_ready_seconds, now) for pod in pods if is_active(pod)]
    return ReplicaCounts(
        active=len(waits),
        ready=sum(wait is not None for wait in waits),
        available=sum(wait == timedelta() for wait in waits),
        terminating=sum(map(is_terminating, pods)),
        next_available=min((wait for wait in waits if wait), default=None),
    )


def ranked(active: Iterable[Pod], *, by_cost: bool = False) -> list[Pod]:
    """Return active pods in the order in which a controller deletes surplus ones: those that got least far first.

    A pod without a node precedes one with, then Pending before Unknown before Running, not ready before ready,
    the shorter ready before the longer, more restarts before fewer, and the newer before the older.

    Args:
        active: The pods.
        by_cost: Whether the lower deletion cost precedes, of two pods of which both or neither are ready.

    Source: kubernetes/pkg/controller/controller_utils.go, ActivePods, and ActivePodsWithRanks for costs.
    """
    return sorted(active, key=_progress_and_cost if by_cost else _progress)


def _progress_and_cost(pod: Pod) -> tuple[Any, ...]:
    cost = parse_deletion_cost(pod.metadata.annotations.get(DELETION_COST, "")) or 0
    progress = _progress(pod)
    return (*progress[:3], cost, *progress[3:])


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
