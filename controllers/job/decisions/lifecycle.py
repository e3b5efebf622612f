"""The life cycle of a Job: its conditions, suspension, deadline, parallelism, completion and success policy."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from kcr.api.batch import COMPLETE, FAILED, Job, JobStatus, SuccessPolicyRule
from kcr.api.conditions import ensure, is_condition_true, made
from kcr.api.core import Pod
from kcr.api.indexset import IndexSet
from kcr.api.meta import whole_seconds
from kcr.api.pods import ranked

# The controllers that a Job may name: this one, and the cluster's own.
KCR = "kcr.dev/job-controller"
RESERVED = "kubernetes.io/job-controller"

SUCCESS_CRITERIA_MET = "SuccessCriteriaMet"
FAILURE_TARGET = "FailureTarget"
SUSPENDED = "Suspended"

# The interim condition that comes before each terminal one, while pods still have to go.
INTERIM: Mapping[str, str] = {COMPLETE: SUCCESS_CRITERIA_MET, FAILED: FAILURE_TARGET}

COMPLETIONS_REACHED = "CompletionsReached"


def is_ending(job: Job) -> bool:
    """Return whether the status says how the Job ends: its pods are being deleted."""
    return any(is_condition_true(job.status.conditions, interim) for interim in INTERIM.values())


def is_being_deleted(job: Job) -> bool:
    """Return whether the Job has a deletionTimestamp."""
    return job.metadata.deletion_timestamp is not None


def with_suspension(job: Job, status: JobStatus, now: datetime) -> JobStatus:
    """Return the status with the Suspended condition as the spec has it; the same status if it says so already.

    Suspension clears the start time, and with it the deadline; resuming sets it again. A Job that was never
    suspended has no such condition.

    Source: kubernetes/pkg/controller/job/job_controller.go, syncJob (suspend bookkeeping).
    """
    if job.spec.suspend:
        condition = made(SUSPENDED, "True", "JobSuspended", "Job suspended", now)
        start = None
    else:
        condition = made(SUSPENDED, "False", "JobResumed", "Job resumed", now)
        start = whole_seconds(now)
    conditions = ensure(status.conditions, condition)
    if conditions is status.conditions:
        return status
    return replace(status, conditions=conditions, start_time=start)


def time_to_deadline(job: Job, now: datetime) -> timedelta | None:
    """Return how long the Job may still run, or None when no deadline counts down.

    The clock runs from `status.startTime` and only while the Job is not suspended. Resuming resets
    the start time, so a resumed Job gets its whole allowance again; upstream judges the Job that is about to be
    resumed by its old start time, if an older controller has left it one.

    Args:
        job: The Job as last observed.
        now: The moment to judge at, timezone-aware UTC.

    Returns:
        Zero or less means the deadline has passed.

    Source: kubernetes/pkg/controller/job/job_controller.go, pastActiveDeadline.
    """
    limit = job.spec.active_deadline_seconds
    if limit is None or job.status.start_time is None or job.spec.suspend:
        return None
    start = now if is_condition_true(job.status.conditions, SUSPENDED) else job.status.start_time
    return start + timedelta(seconds=limit) - now


def wanted_active(job: Job, active: int, succeeded: int) -> int:
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


def is_complete(job: Job, succeeded: int, active: int) -> bool:
    """Return whether enough pods have succeeded and none is active.

    Without completions the Job is a work queue: the first success says that the work is done, and the pods
    that are left may end as they like.

    Source: kubernetes/pkg/controller/job/job_controller.go, syncJob (completion check).
    """
    if active:
        return False
    wanted = job.spec.completions
    return succeeded > 0 if wanted is None else succeeded >= wanted


def met_rule(job: Job, succeeded: IndexSet) -> int | None:
    """Return the position of the first rule that the succeeded indexes meet, or None.

    Source: kubernetes/pkg/controller/job/success_policy.go, matchSuccessPolicy.
    """
    policy, completions = job.spec.success_policy, job.spec.completions or 0
    if policy is None or not succeeded.intervals:
        return None
    holding = (place for place, rule in enumerate(policy.rules) if _holds(rule, succeeded, completions))
    return next(holding, None)


def _holds(rule: SuccessPolicyRule, succeeded: IndexSet, completions: int) -> bool:
    if rule.succeeded_indexes is None:
        return rule.succeeded_count is not None and len(succeeded) >= rule.succeeded_count
    named = IndexSet.parse(rule.succeeded_indexes, completions)
    have = len(named & succeeded)
    enough = rule.succeeded_count is not None and have >= rule.succeeded_count
    return len(named) > 0 and (enough or have == len(named))


def is_ours(job: Job, *, take_over: bool) -> bool:
    """Return whether this controller manages a Job (`spec.managedBy`).

    The field exists for this purpose: the cluster's own controller skips a Job that names another.
    """
    named = job.spec.managed_by
    return named in (None, RESERVED, KCR) if take_over else named == KCR
