"""How many pods a Job should have (`spec.parallelism`), and which go first when there are too many."""

from collections.abc import Iterable
from typing import Any

from kcr.api.batch import Job
from kcr.api.conditions import find
from kcr.api.core import ContainerStatus, Pod
from kcr.controllers.job.pods import is_ready, sidecars

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def wanted(job: Job, active: int, succeeded: int) -> int:
    """Return how many pods should be active.

    With completions never more than are still missing. Without, the Job is a work queue: after the first
    success nothing is created and nothing trimmed.

    Source: kubernetes/pkg/controller/job/job_controller.go, manageJob.
    """
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is None:
        return active if succeeded else parallelism
    return max(0, min(parallelism, job.spec.completions - succeeded))


def surplus(active: Iterable[Pod], count: int) -> tuple[Pod, ...]:
    """Return the pods to remove: those that have got least far."""
    return tuple(ranked(active)[:count]) if count > 0 else ()


def ranked(active: Iterable[Pod]) -> list[Pod]:
    """Return the pods in the order in which they go: those that have got least far first.

    Source: kubernetes/pkg/controller/controller_utils.go, ActivePodsWithRanks.
    """
    return sorted(active, key=_progress)


def _progress(pod: Pod) -> tuple[Any, ...]:
    """Rank a pod by how much would be lost with it; the first place that differs decides."""
    ready = find(pod.status.conditions, "Ready")
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
