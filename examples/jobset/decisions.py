"""The next step of a JobSet: plain functions, so their tests need no server."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

import kcr
from examples.jobset.api import FailurePolicyRule, JobSet, JobSetStatus, ReplicatedJob, ReplicatedJobStatus
from kcr.api.batch import COMPLETE, FAILED, Job, finished_type, is_finished

# Labels of Jobs and their pods. The attempt separates the Jobs of this run from those of the runs before.
JOBSET, REPLICATED_JOB = "example.dev/jobset-name", "example.dev/replicatedjob-name"
INDEX, ATTEMPT = "example.dev/job-index", "example.dev/restart-attempt"
# Conditions, beside FAILED.
COMPLETED, SUSPENDED, RESTARTED = "Completed", "Suspended", "Restarted"


class Plan(NamedTuple):
    """The writes of one reconcile, in this order; a process that dies after any of them leaves a state to go on from.

    Attributes:
        status: Ends and restarts are in it, so it is written before Jobs are deleted for them.
        delete: The Jobs to delete.
        create: The Jobs to create.
        toggle: The Jobs whose `spec.suspend` is to change.
        expires_in: The time until the JobSet is deleted; None for never.
    """

    status: JobSetStatus
    delete: Sequence[Job]
    create: Sequence[tuple[ReplicatedJob, int]] = ()
    toggle: Sequence[Job] = ()
    expires_in: timedelta | None = None


def decide(jobset: JobSet, jobs: Sequence[Job], now: datetime) -> Plan:
    """Return the next step of a JobSet.

    Jobs are deleted for the status alone, so it does not matter whether this process has written it: after its end
    those that have not ended, after a restart those of the attempts before.

    Args:
        jobset: The JobSet as last observed.
        jobs: The Jobs that it controls, of all attempts.
        now: The moment at which conditions change.

    Source: kubernetes-sigs/jobset/pkg/controllers/jobset_controller.go, reconcile.
    """
    alive = [job for job in jobs if job.metadata.deletion_timestamp is None]
    status = compute_status(jobset, [job for job in alive if attempt_of(job) == jobset.status.restarts], now)
    unfinished = [job for job in alive if not is_finished(job)]
    if status.terminal_state:
        return Plan(status, delete=unfinished, expires_in=time_left(jobset, status, now))
    old = {job.metadata.name for job in jobs if attempt_of(job) < status.restarts}
    due = {one.name: one for one in startable(jobset, status, is_restarting=bool(old))}
    # A deleted Job keeps its name until its pods are gone.
    taken = {job.metadata.name for job in jobs}
    create = [(one, n) for one in due.values() for n in range(one.replicas) if job_name(jobset, one, n) not in taken]
    started = [job for job in unfinished if job.metadata.name not in old and _name_of(job) in due]
    toggle = [job for job in started if bool(job.spec.suspend) is not jobset.spec.suspend]
    return Plan(status, [job for job in alive if job.metadata.name in old], create, toggle)


def compute_status(jobset: JobSet, jobs: Sequence[Job], now: datetime) -> JobSetStatus:
    """Return the status that follows from the Jobs of the present attempt that are not being deleted."""
    status = replace(jobset.status, replicated_jobs_status=tuple(counts(jobset, jobs)))
    if status.terminal_state:
        return status
    if failed := [job for job in jobs if finished_type(job) == FAILED]:
        failed.sort(key=lambda job: str(_failure(job).last_transition_time))
        return _after_failure(jobset, status, failed, now)
    if is_successful(jobset, status):
        status = replace(status, terminal_state=COMPLETED)
        return _with(status, COMPLETED, True, "AllJobsCompleted", "jobset completed successfully", now)
    if jobset.spec.suspend:
        return _with(status, SUSPENDED, True, "SuspendedJobs", "jobset is suspended", now)
    if kcr.is_condition_true(status.conditions, SUSPENDED):
        return _with(status, SUSPENDED, False, "ResumeJobs", "jobset is resumed", now)
    return status


def _after_failure(jobset: JobSet, status: JobSetStatus, failed: Sequence[Job], now: datetime) -> JobSetStatus:
    """End the JobSet, or begin its next attempt."""
    policy, used = jobset.spec.failure_policy, status.restarts_count_towards_max
    action, job = match(policy.rules if policy else (), failed)
    cause = f"(first failed job: {job.metadata.name})"
    if policy is None:
        reason, why = "FailedJobs", "one or more job failures"
    elif action == "FailJobSet":
        reason, why = "FailJobSetFailurePolicyAction", "FailJobSet failure policy action"
    elif action == "RestartJobSet" and used >= policy.max_restarts:
        reason, why = "ReachedMaxRestarts", "reaching max number of restarts"
    else:
        used += action == "RestartJobSet"
        status = replace(status, restarts=status.restarts + 1, restarts_count_towards_max=used)
        status = replace(status, replicated_jobs_status=tuple(counts(jobset, ())))
        return _with(status, RESTARTED, True, action, f"jobset restarted as attempt {status.restarts} {cause}", now)
    status = replace(status, terminal_state=FAILED)
    return _with(status, FAILED, True, reason, f"jobset failed due to {why} {cause}", now)


def match(rules: Iterable[FailurePolicyRule], failed: Sequence[Job]) -> tuple[str, Job]:
    """Return the action of the first rule that matches a failed Job, with the Job; by default `RestartJobSet`.

    Source: kubernetes-sigs/jobset/pkg/controllers/failure_policy.go, findFirstFailedPolicyRuleAndJob.
    """
    for rule in rules:
        for job in failed:
            is_target = not rule.target_replicated_jobs or _name_of(job) in rule.target_replicated_jobs
            if is_target and (not rule.on_job_failure_reasons or _failure(job).reason in rule.on_job_failure_reasons):
                return rule.action, job
    return "RestartJobSet", failed[0]


def startable(jobset: JobSet, status: JobSetStatus, *, is_restarting: bool) -> Iterator[ReplicatedJob]:
    """Yield the replicated Jobs whose Jobs may be created and resumed; those of a suspended JobSet are in no order.

    Args:
        jobset: The JobSet.
        status: Its present status.
        is_restarting: Whether there are Jobs of earlier attempts.
    """
    policy, startup = jobset.spec.failure_policy, jobset.spec.startup_policy
    if is_restarting and policy is not None and policy.restart_strategy == "BlockingRecreate":
        return
    for one in jobset.spec.replicated_jobs:
        yield one
        if startup.startup_policy_order == "InOrder" and not jobset.spec.suspend and not is_started(one, status):
            return


def is_started(one: ReplicatedJob, status: JobSetStatus) -> bool:
    """Return whether all Jobs of a replicated Job are ready or have ended.

    Source: kubernetes-sigs/jobset/pkg/controllers/startup_policy.go, replicatedJobsStarted.
    """
    found = next(found for found in status.replicated_jobs_status if found.name == one.name)
    return found.ready + found.succeeded + found.failed == one.replicas


def is_successful(jobset: JobSet, status: JobSetStatus) -> bool:
    """Return whether the success policy is met.

    Source: kubernetes-sigs/jobset/pkg/controllers/success_policy.go, numJobsExpectedToSucceed.
    """
    policy, names = jobset.spec.success_policy, jobset.spec.success_policy.target_replicated_jobs
    wanted = sum(one.replicas for one in jobset.spec.replicated_jobs if not names or one.name in names)
    succeeded = sum(one.succeeded for one in status.replicated_jobs_status if not names or one.name in names)
    return succeeded >= (wanted if policy.operator == "All" else 1)


def counts(jobset: JobSet, jobs: Sequence[Job]) -> Iterator[ReplicatedJobStatus]:
    """Yield the status of each replicated Job.

    Args:
        jobset: The JobSet.
        jobs: The Jobs of its present attempt that are not being deleted.
    """
    for one in jobset.spec.replicated_jobs:
        own = [job for job in jobs if _name_of(job) == one.name]
        ready = sum(kcr.readiness(job).state == "running" for job in own)
        ends = [finished_type(job) for job in own]
        yield ReplicatedJobStatus(name=one.name, ready=ready, succeeded=ends.count(COMPLETE), failed=ends.count(FAILED))


def time_left(jobset: JobSet, status: JobSetStatus, now: datetime) -> timedelta | None:
    """Return the time until an ended JobSet is to be deleted, zero or less if that is now; None for never."""
    ttl = jobset.spec.ttl_seconds_after_finished
    ended = kcr.find_condition(status.conditions, status.terminal_state)
    if ttl is None or ended is None or ended.last_transition_time is None:
        return None
    return ended.last_transition_time + timedelta(seconds=ttl) - now


def job_name(jobset: JobSet, one: ReplicatedJob, index: int) -> str:
    """Return the name of a Job, the same in each attempt: a create is idempotent."""
    return f"{jobset.metadata.name}-{one.name}-{index}"


def attempt_of(job: Job) -> int:
    """Return the attempt that a Job was created for; -1 if its label does not say."""
    attempt = job.metadata.labels.get(ATTEMPT, "")
    return int(attempt) if attempt.isdecimal() else -1


def _name_of(job: Job) -> str:
    return job.metadata.labels.get(REPLICATED_JOB, "")


def _failure(job: Job) -> kcr.Condition:
    """Return the condition of a failed Job that says when and why."""
    return next(condition for condition in job.status.conditions if condition.type == FAILED)


def _with(status: JobSetStatus, kind: str, holds: bool, reason: str, message: str, now: datetime) -> JobSetStatus:
    condition = kcr.Condition(type=kind, status=str(holds), reason=reason, message=message)
    return replace(status, conditions=kcr.set_condition(status.conditions, condition, now))
