"""The decisions of the ReplicaSet controller: plain functions over values.

Source: kubernetes/pkg/controller/replicaset, replica_set.go and replica_set_utils.go.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import kcr
from examples.replicaset.api import ReplicaSet, ReplicaSetStatus
from kcr.api.conditions import find_condition
from kcr.api.core import Pod
from kcr.api.pods import is_active, is_ready, is_terminating, ranked

# The most pods that one reconcile creates or deletes.
BURST_REPLICAS = 500
FAILURE = "ReplicaFailure"


class Plan(NamedTuple):
    """How many pods to create, and which to delete; never both."""

    create: int = 0
    delete: tuple[Pod, ...] = ()


def plan(owner: ReplicaSet, pods: Sequence[Pod]) -> Plan:
    """Compare the active pods with the number that is wanted.

    Args:
        owner: The ReplicaSet; one that is being deleted makes and deletes nothing, its pods are collected.
        pods: Its pods; those that have finished or are terminating are not counted.
    """
    if owner.metadata.deletion_timestamp is not None:
        return Plan()
    active = [pod for pod in pods if is_active(pod)]
    surplus = len(active) - (1 if owner.spec.replicas is None else owner.spec.replicas)
    if surplus > 0:
        return Plan(delete=tuple(ranked(active))[: min(surplus, BURST_REPLICAS)])
    return Plan(create=min(-surplus, BURST_REPLICAS))


def available_in(owner: ReplicaSet, pod: Pod, now: datetime) -> timedelta | None:
    """Return how long until a pod has been ready for `minReadySeconds`, zero when it has; None while it is not."""
    if not is_ready(pod):
        return None
    ready = find_condition(pod.status.conditions, "Ready")
    since = ready.last_transition_time if ready is not None else None
    if owner.spec.min_ready_seconds <= 0 or since is None:
        return timedelta()
    return max(timedelta(), since + timedelta(seconds=owner.spec.min_ready_seconds) - now)


def compute_status(
    owner: ReplicaSet, pods: Sequence[Pod], failure: kcr.Condition | None, now: datetime
) -> ReplicaSetStatus:
    """Return the status: the pods as they were observed, and whether creating or deleting pods failed.

    Args:
        owner: The ReplicaSet.
        pods: Its pods, before this reconcile created or deleted any.
        failure: What to say of a create or delete that failed; None when none did.
        now: The moment to judge availability at.
    """
    active = [pod for pod in pods if is_active(pod)]
    waits = [available_in(owner, pod, now) for pod in active]
    conditions, known = owner.status.conditions, find_condition(owner.status.conditions, FAILURE)
    if failure is None:
        conditions = tuple(one for one in conditions if one.type != FAILURE)
    elif known is None or known.reason != failure.reason:
        # Not for a new message alone: each names another pod, and a status that changes with each retry enqueues the
        # owner at once, whatever its backoff.
        conditions = kcr.set_condition(conditions, failure, now)
    return ReplicaSetStatus(
        replicas=len(active),
        ready_replicas=sum(wait is not None for wait in waits),
        available_replicas=sum(wait == timedelta() for wait in waits),
        terminating_replicas=sum(is_terminating(pod) for pod in pods),
        observed_generation=owner.metadata.generation or 0,
        conditions=conditions,
    )


def failed(todo: Plan, error: kcr.KcrError | None) -> kcr.Condition | None:
    """Return the condition that says that a plan failed; None when it did not."""
    if error is None:
        return None
    reason = "FailedCreate" if todo.create else "FailedDelete"
    return kcr.Condition(type=FAILURE, status="True", reason=reason, message=str(error))


def next_availability(owner: ReplicaSet, pods: Sequence[Pod], now: datetime) -> timedelta | None:
    """Return when the next ready pod becomes available; None when no event of the clock is waited for."""
    waits = (available_in(owner, pod, now) for pod in pods if is_active(pod))
    return min((wait for wait in waits if wait), default=None)
