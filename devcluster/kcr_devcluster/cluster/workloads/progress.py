"""The status of a Deployment: counts, and the conditions Available, Progressing and ReplicaFailure.

Source: kubernetes/pkg/controller/deployment, progress.go, sync.go (calculateStatus, checkPausedConditions),
util/deployment_util.go.
"""

from datetime import datetime, timedelta

from msgspec.structs import replace

from kcr.api.apps import Deployment, DeploymentCondition, DeploymentStatus
from kcr.api.conditions import find_condition
from kcr.api.meta import whole_seconds
from kcr_devcluster.cluster.workloads.revisions import History
from kcr_devcluster.cluster.workloads.rollout import desired, max_unavailable, total

AVAILABLE, PROGRESSING, REPLICA_FAILURE = "Available", "Progressing", "ReplicaFailure"
# Reasons of Progressing.
COMPLETE, TIMED_OUT, PAUSED = "NewReplicaSetAvailable", "ProgressDeadlineExceeded", "DeploymentPaused"

Conditions = tuple[DeploymentCondition, ...]


def with_condition(
    conditions: Conditions, kind: str, status: str, words: tuple[str, str], now: datetime, *, renew: bool = False
) -> Conditions:
    """Return the conditions with one set; the very same tuple when it says the same already.

    Args:
        conditions: As the status has them.
        kind: The type of the condition.
        status: `True`, `False` or `Unknown`.
        words: Reason and message.
        now: The moment of the update; of the transition too, where the status changes.
        renew: Whether to move `lastUpdateTime` although status and reason stay.

    Source: util/deployment_util.go, SetDeploymentCondition.
    """
    reason, message = words
    present, moment = find_condition(conditions, kind), whole_seconds(now)
    changed = moment
    if present is not None and present.status == status:
        if present.reason == reason and not renew:
            return conditions
        changed = present.last_transition_time or moment
    made = DeploymentCondition(
        type=kind, status=status, reason=reason, message=message, last_update_time=moment, last_transition_time=changed
    )
    return (*without(conditions, kind), made)


def without(conditions: Conditions, kind: str) -> Conditions:
    """Return the conditions but for one type."""
    return tuple(one for one in conditions if one.type != kind)


def with_progress(deployment: Deployment, status: str, words: tuple[str, str], now: datetime) -> Deployment:
    """Return a Deployment with a condition Progressing, if it has a deadline for progress.

    Args:
        deployment: The Deployment.
        status: `True`, `False` or `Unknown`.
        words: Reason and message.
        now: The moment.
    """
    if deployment.spec.progress_deadline_seconds is None:
        return deployment
    conditions = with_condition(deployment.status.conditions, PROGRESSING, status, words, now)
    return replace(deployment, status=replace(deployment.status, conditions=conditions))


def with_pause(deployment: Deployment, now: datetime) -> Deployment:
    """Return a Deployment whose conditions say that it is paused, or resumed; one that timed out stays as it is."""
    progressing = find_condition(deployment.status.conditions, PROGRESSING)
    reason = progressing.reason if progressing is not None else ""
    if reason == TIMED_OUT or deployment.spec.paused == (reason == PAUSED):
        return deployment
    words = (
        (PAUSED, "Deployment is paused") if deployment.spec.paused else ("DeploymentResumed", "Deployment is resumed")
    )
    return with_progress(deployment, "Unknown", words, now)


def observed_status(deployment: Deployment, history: History, now: datetime) -> DeploymentStatus:
    """Return the status as the ReplicaSets are: counts, and whether enough pods are available.

    Args:
        deployment: The Deployment.
        history: Its ReplicaSets.
        now: The moment of a transition.
    """
    statuses = [one.status for one in history.all]
    available = sum(status.available_replicas for status in statuses)
    if available >= desired(deployment) - max_unavailable(deployment):
        said = ("True", ("MinimumReplicasAvailable", "Deployment has minimum availability."))
    else:
        said = ("False", ("MinimumReplicasUnavailable", "Deployment does not have minimum availability."))
    return DeploymentStatus(
        observed_generation=deployment.metadata.generation or 0,
        replicas=sum(status.replicas for status in statuses),
        updated_replicas=history.new.status.replicas if history.new is not None else 0,
        ready_replicas=sum(status.ready_replicas for status in statuses),
        available_replicas=available,
        unavailable_replicas=max(total(history.all) - available, 0),
        terminating_replicas=sum(status.terminating_replicas or 0 for status in statuses),
        collision_count=deployment.status.collision_count,
        conditions=with_condition(deployment.status.conditions, AVAILABLE, *said, now),
    )


def rollout_status(deployment: Deployment, history: History, now: datetime) -> DeploymentStatus:
    """Return the status with the conditions for the progress of a rollout.

    Args:
        deployment: The Deployment, with its status before.
        history: Its ReplicaSets.
        now: The moment to judge at.
    """
    status = observed_status(deployment, history, now)
    conditions = _progress_conditions(deployment, status, history, now)
    return replace(status, conditions=_with_failure(conditions, history, now))


def _progress_conditions(
    deployment: Deployment, status: DeploymentStatus, history: History, now: datetime
) -> Conditions:
    conditions, before = status.conditions, find_condition(status.conditions, PROGRESSING)
    if deployment.spec.progress_deadline_seconds is None:
        return without(conditions, PROGRESSING)
    if before is not None and before.reason == COMPLETE and status.replicas == status.updated_replicas:
        return conditions
    subject = f'Deployment "{deployment.metadata.name}"'
    if history.new is not None:
        subject = f'ReplicaSet "{history.new.metadata.name}"'
    if is_complete(deployment, status):
        words = (COMPLETE, f"{subject} has successfully progressed.")
        return with_condition(conditions, PROGRESSING, "True", words, now)
    if _progresses(deployment.status, status):
        words = ("ReplicaSetUpdated", f"{subject} is progressing.")
        return with_condition(conditions, PROGRESSING, "True", words, now, renew=True)
    if (left := progress_time_left(deployment, status, now)) is not None and left < timedelta():
        return with_condition(
            conditions, PROGRESSING, "False", (TIMED_OUT, f"{subject} has timed out progressing."), now
        )
    return conditions


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Return whether all pods are of the present template and available, and no other pod is left."""
    counts = {status.updated_replicas, status.replicas, status.available_replicas}
    return counts == {desired(deployment)} and status.observed_generation >= (deployment.metadata.generation or 0)


def _progresses(before: DeploymentStatus, after: DeploymentStatus) -> bool:
    return (
        after.updated_replicas > before.updated_replicas
        or after.replicas - after.updated_replicas < before.replicas - before.updated_replicas
        or after.ready_replicas > before.ready_replicas
        or after.available_replicas > before.available_replicas
    )


def progress_time_left(deployment: Deployment, status: DeploymentStatus, now: datetime) -> timedelta | None:
    """Return how long a rollout may continue without progress; None when no deadline counts down.

    Args:
        deployment: The Deployment.
        status: Its status; one that has ended well or timed out has no deadline.
        now: The moment to judge at, timezone-aware UTC.

    Source: util/deployment_util.go, DeploymentTimedOut; deployment_controller.go, requeueStuckDeployment.
    """
    limit, progressing = deployment.spec.progress_deadline_seconds, find_condition(status.conditions, PROGRESSING)
    if limit is None or progressing is None or progressing.reason in (COMPLETE, TIMED_OUT):
        return None
    if progressing.last_update_time is None or deployment.spec.paused:
        return None
    return progressing.last_update_time + timedelta(seconds=limit) - now


def _with_failure(conditions: Conditions, history: History, now: datetime) -> Conditions:
    """Return the conditions with the first failure of a ReplicaSet to create pods, that of the new one before all."""
    for replica_set in history.all[::-1]:
        failure = find_condition(replica_set.status.conditions, REPLICA_FAILURE)
        if failure is not None:
            words = (failure.reason, failure.message)
            return with_condition(
                conditions, REPLICA_FAILURE, failure.status, words, failure.last_transition_time or now
            )
    return without(conditions, REPLICA_FAILURE)
