"""What a pod is to its Job: active, terminating, ready, failed, tracked; and when it ended."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from kcr.api.batch import Job
from kcr.api.conditions import find, is_true
from kcr.api.core import ContainerStatus, Pod

TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"


def has_ended(pod: Pod) -> bool:
    """Return whether all containers have stopped for good."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_active(pod: Pod) -> bool:
    """Return whether the pod runs or may still run. Unknown phases count as active."""
    return not has_ended(pod) and pod.metadata.deletion_timestamp is None


def is_terminating(pod: Pod) -> bool:
    """Return whether the pod was told to go and has not ended."""
    return not has_ended(pod) and pod.metadata.deletion_timestamp is not None


def is_ready(pod: Pod) -> bool:
    """Return whether the node reports the pod ready."""
    return is_true(pod.status.conditions, "Ready")


def is_tracked(pod: Pod) -> bool:
    """Return whether the pod carries the finalizer that keeps it until it is counted."""
    return TRACKING_FINALIZER in pod.metadata.finalizers


def replaces_only_failed(job: Job) -> bool:
    """Return whether a pod must have ended before it counts as failed and is replaced.

    The server sets this policy on every Job with a podFailurePolicy.
    """
    return job.spec.pod_replacement_policy == "Failed"


def has_failed(pod: Pod, job: Job) -> bool:
    """Return whether the pod counts as failed for this Job.

    Source: kubernetes/pkg/controller/job/job_controller.go, isPodFailed.
    """
    if pod.status.phase == "Failed":
        return True
    told_to_go = pod.metadata.deletion_timestamp is not None
    return told_to_go and pod.status.phase != "Succeeded" and not replaces_only_failed(job)


def finish_time(pod: Pod) -> datetime | None:
    """Return when the pod ended, by the best source it offers, or None when it offers none.

    The sources, best first: the latest end of its containers when all have ended; the moment it stopped
    being ready; the moment it was told to go; its creation.

    Source: kubernetes/pkg/controller/job/backoff_utils.go, getFinishedTime.
    """
    ready = find(pod.status.conditions, "Ready")
    metadata = pod.metadata
    if (ended := _containers_ended(pod)) is not None:
        return ended
    if ready is not None and ready.status == "False" and ready.last_transition_time is not None:
        return ready.last_transition_time
    if metadata.deletion_timestamp is not None:
        return metadata.deletion_timestamp - timedelta(seconds=metadata.deletion_grace_period_seconds or 0)
    return metadata.creation_timestamp


def sidecars(pod: Pod) -> tuple[ContainerStatus, ...]:
    """Return the statuses of the init containers that run beside the others."""
    names = {container.name for container in pod.spec.init_containers if container.restart_policy == "Always"}
    return tuple(status for status in pod.status.init_container_statuses if status.name in names)


def _containers_ended(pod: Pod) -> datetime | None:
    # One unfinished sidecar voids the whole source, as upstream has it.
    regular, beside = _all_ended(pod.status.container_statuses), _all_ended(sidecars(pod))
    if sidecars(pod) and beside is None:
        return None
    return max((moment for moment in (regular, beside) if moment is not None), default=None)


def _all_ended(statuses: Iterable[ContainerStatus]) -> datetime | None:
    """Return the latest end, or None when there is no container or one has not ended."""
    ends: list[datetime] = []
    for status in statuses:
        if status.state.terminated is None or status.state.terminated.finished_at is None:
            return None
        ends.append(status.state.terminated.finished_at)
    return max(ends, default=None)
