"""The properties of a Job's pod: selected, tracked, failed, its index, its end, and its store index."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from kcr.api.batch import Job, is_indexed
from kcr.api.conditions import find_condition
from kcr.api.core import ContainerStatus, Pod
from kcr.api.meta import controller_of
from kcr.api.pods import annotated_number, completion_index, is_terminal, is_terminating, sidecars
from kcr.api.selectors import matches
from kcr.controllers.job.decisions.lifecycle import is_ending
from kcr.errors import KcrError

TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
# The label that the selectors of Jobs ask for, unless a user wrote the selector.
CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
# How often the index had failed before this pod, and how often that was ignored.
FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"

_MOST_FAILURES = 2**31 - 1
_NEVER = datetime.min.replace(tzinfo=UTC)


def is_tracked(pod: Pod) -> bool:
    """Return whether the pod carries the finalizer that keeps it until it is counted."""
    return TRACKING_FINALIZER in pod.metadata.finalizers


def replaces_only_failed(job: Job) -> bool:
    """Return whether a pod must have ended before it counts as failed and is replaced.

    A podFailurePolicy asks for the same: only an ended pod says how it failed.
    """
    return job.spec.pod_replacement_policy == "Failed" or job.spec.pod_failure_policy is not None


def has_failed(pod: Pod, job: Job) -> bool:
    """Return whether the pod counts as failed for this Job.

    Once it is on record how the Job ends it tells its pods to go, and that they go is no failure. Upstream makes no
    such difference: when its controller has been restarted, a Job that met its success policy has failed pods.

    Source: kubernetes/pkg/controller/job/job_controller.go, isPodFailed.
    """
    if is_terminal(pod):
        return pod.status.phase == "Failed"
    return is_terminating(pod) and not replaces_only_failed(job) and not is_ending(job)


def index_in(job: Job, pod: Pod) -> int | None:
    """Return the pod's index if the Job has such an index; it may have shrunk since, or never had it."""
    index = completion_index(pod)
    return index if index is not None and index < (job.spec.completions or 0) else None


def counts_for(job: Job, pod: Pod) -> bool:
    """Return whether the pod's end is any news for the Job: that of a pod without a valid index is none."""
    return not is_indexed(job) or index_in(job, pod) is not None


def failures_before(pod: Pod) -> int:
    """Return how many failures of its index came before this pod and counted."""
    return _failures(pod, FAILURE_COUNT)


def ignored_failures_before(pod: Pod) -> int:
    """Return how many failures of its index came before this pod and were ignored."""
    return _failures(pod, IGNORED_FAILURE_COUNT)


def _failures(pod: Pod, annotation: str) -> int:
    count = annotated_number(pod, annotation) or 0
    return count if count <= _MOST_FAILURES else 0


def finish_time(pod: Pod) -> datetime | None:
    """Return when the pod ended, by the best source it offers, or None when it offers none.

    The sources, best first: the latest end of its containers when all have ended; the moment it stopped
    being ready; its deletionTimestamp; its creation.

    Source: kubernetes/pkg/controller/job/backoff_utils.go, getFinishedTime.
    """
    ready = find_condition(pod.status.conditions, "Ready")
    metadata = pod.metadata
    if (ended := _containers_ended(pod)) is not None:
        return ended
    if ready is not None and ready.status == "False" and ready.last_transition_time is not None:
        return ready.last_transition_time
    if metadata.deletion_timestamp is not None:
        return metadata.deletion_timestamp - timedelta(seconds=metadata.deletion_grace_period_seconds or 0)
    return metadata.creation_timestamp


def surplus_failures(failed: Iterable[Pod], keep: int) -> tuple[Pod, ...]:
    """Return the failed pods to delete, those that ended first, first.

    Args:
        failed: The counted failed pods of one Job; one may come twice. Those that are being deleted are ignored.
        keep: How many of the latest are kept.
    """
    found = {pod.metadata.uid: pod for pod in failed if pod.metadata.deletion_timestamp is None}
    order = sorted(found.values(), key=lambda pod: (finish_time(pod) or _NEVER, pod.metadata.name))
    return tuple(order[: max(0, len(order) - keep)])


def _containers_ended(pod: Pod) -> datetime | None:
    # One unfinished sidecar voids the whole source, as upstream has it.
    regular, beside = _all_ended(pod.status.container_statuses), _all_ended(sidecars(pod))
    if sidecars(pod) and beside is None:
        return None
    return max((moment for moment in (regular, beside) if moment is not None), default=None)


def _all_ended(statuses: Iterable[ContainerStatus]) -> datetime | None:
    ends: list[datetime] = []
    for status in statuses:
        if status.state.terminated is None or status.state.terminated.finished_at is None:
            return None
        ends.append(status.state.terminated.finished_at)
    return max(ends, default=None)


def selects(job: Job, pod: Pod) -> bool:
    """Return whether the Job's selector fits a pod; ownership is another matter.

    Raises:
        KcrError: The selector is malformed. The server lets none in; an older one may have.

    Source: kubernetes/pkg/controller/job/job_controller.go, getPodsForJob.
    """
    if job.spec.selector is None or job.metadata.namespace != pod.metadata.namespace:
        return False
    try:
        return matches(job.spec.selector, pod.metadata.labels)
    except ValueError as error:
        raise KcrError(f"job {job.key}: couldn't convert Job selector: {error}") from error


# Pods that still matter to their Job, by the UID of their controller: those that have not ended, those that still
# carry the tracking finalizer, and those that may have to be released. All others are in the counters already, so
# that the cost of a pass follows the pods that changed and not the size of the Job.
UNSETTLED = "job-unsettled"
# Failed pods without the finalizer, by the UID of their controller: those that are counted, and those that the Job let
# go before they ended, or that never had it. A FailJob rule ends the Job for either.
UNTRACKED_FAILURES = "job-untracked-failures"
# Pods without a controller, by namespace: a Job whose selector fits adopts them.
ORPHANS = "job-orphans"


def index_unsettled(pod: Pod) -> Iterable[str]:
    """Return the UID under which an unsettled pod is found, or nothing."""
    owner = controller_of(pod.metadata)
    if owner is None or owner.kind != "Job":
        return ()
    # Its Job's selector asks for this label, unless a user wrote the selector.
    is_kept = pod.metadata.labels.get(CONTROLLER_UID) == owner.uid
    return () if is_terminal(pod) and not is_tracked(pod) and is_kept else (owner.uid,)


def index_untracked_failures(pod: Pod) -> Iterable[str]:
    """Return the UID under which a failed pod without the finalizer is found, or nothing."""
    if pod.status.phase != "Failed" or is_tracked(pod):
        return ()
    owner = controller_of(pod.metadata)
    return (owner.uid,) if owner is not None and owner.kind == "Job" else ()


def index_orphans(pod: Pod) -> Iterable[str]:
    """Return the namespace under which a pod without a controller is found, or nothing."""
    return (pod.metadata.namespace,) if controller_of(pod.metadata) is None else ()
