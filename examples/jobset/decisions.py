"""The next step of a JobSet: plain functions, so their tests need no server."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

import kcr
from examples.jobset.api import FailurePolicy, JobSet, JobSetStatus, ReplicatedJob, ReplicatedJobStatus
from kcr.api.batch import COMPLETE, FAILED, Job, finished_type, is_finished

# Labels of Jobs and their pods. The attempt separates the Jobs of this run from those of the runs before.
JOBSET, REPLICATED_JOB = "example.dev/jobset-name", "example.dev/replicatedjob-name"
INDEX, ATTEMPT = "example.dev/job-index", "example.dev/restart-attempt"
# Conditions, beside FAILED.
COMPLETED, SUSPENDED, STARTED = "Completed", "Suspended", "StartupPolicyCompleted"


class Plan(NamedTuple):
    """The writes of one reconcile, in this order; a process that dies after any of them leaves a state to go on from.

    Attributes:
        status: Ends and restarts are in it, so it is written before Jobs are deleted for them.
        delete: The Jobs to delete.
        create: The Jobs to create.
        toggle: The Jobs whose `spec.suspend` is to change.
        restart: Reason and message of a restart's event; empty without a restart.
        expires_in: The time until the JobSet is deleted; None for never.
    """

    status: JobSetStatus
    delete: tuple[Job, ...] = ()
    create: tuple[tuple[ReplicatedJob, int], ...] = ()
    toggle: tuple[Job, ...] = ()
    restart: tuple[str, str] | None = None
    expires_in: timedelta | None = None


def decide(jobset: JobSet, jobs: Sequence[Job], now: datetime) -> Plan:
    """Return the next step of a JobSet.

    Args:
        jobset: The JobSet as last observed.
        jobs: The Jobs that it controls, of all attempts.
        now: The moment at which conditions change.

    Source: kubernetes-sigs/jobset/pkg/controllers/jobset_controller.go, reconcile.
    """
    present = [job for job in alive(jobs) if attempt_of(job) == jobset.status.restarts]
    status = replace(jobset.status, replicated_jobs_status=tuple(counts(jobset, present)))
    if status.terminal_state:
        # The process that wrote it may have died before it deleted them.
        return Plan(status, unfinished(jobs), expires_in=time_left(jobset, status, now))
    if failed := sorted((job for job in present if finished_type(job) == FAILED), key=_failure):
        return _after_failure(jobset, status, failed, jobs, now)
    if is_successful(jobset, status):
        status = _ended(status, COMPLETED, "AllJobsCompleted", "jobset completed successfully", now)
        return Plan(status, unfinished(jobs), expires_in=time_left(jobset, status, now))
    return _running(jobset, status, jobs, now)


def _after_failure(
    jobset: JobSet, status: JobSetStatus, failed: Sequence[Job], jobs: Sequence[Job], now: datetime
) -> Plan:
    """End the JobSet, or restart it: Jobs of an earlier attempt than that of the status are deleted."""
    policy = jobset.spec.failure_policy
    action, job = match(policy, failed) if policy else ("", failed[0])
    cause = f"(first failed job: {job.metadata.name})"
    if policy is None:
        end = ("FailedJobs", "jobset failed due to one or more job failures")
    elif action == "FailJobSet":
        end = ("FailJobSetFailurePolicyAction", "jobset failed due to FailJobSet failure policy action")
    elif action == "RestartJobSet" and status.restarts_count_towards_max >= policy.max_restarts:
        end = ("ReachedMaxRestarts", "jobset failed due to reaching max number of restarts")
    else:
        counted = status.restarts_count_towards_max + (action == "RestartJobSet")
        status = replace(status, restarts=status.restarts + 1, restarts_count_towards_max=counted)
        status = replace(status, replicated_jobs_status=tuple(counts(jobset, ())))
        return Plan(status, alive(jobs), restart=(action, f"attempt {status.restarts} {cause}"))
    status = _ended(status, FAILED, end[0], f"{end[1]} {cause}", now)
    return Plan(status, unfinished(jobs), expires_in=time_left(jobset, status, now))


def match(policy: FailurePolicy, failed: Sequence[Job]) -> tuple[str, Job]:
    """Return the action of the first rule that matches a failed Job, with the Job; by default `RestartJobSet`.

    Source: kubernetes-sigs/jobset/pkg/controllers/failure_policy.go, findFirstFailedPolicyRuleAndJob.
    """
    for rule in policy.rules:
        for job in failed:
            _, reason = _failure(job)
            is_target = not rule.target_replicated_jobs or _name_of(job) in rule.target_replicated_jobs
            if is_target and (not rule.on_job_failure_reasons or reason in rule.on_job_failure_reasons):
                return rule.action, job
    return "RestartJobSet", failed[0]


def _running(jobset: JobSet, status: JobSetStatus, jobs: Sequence[Job], now: datetime) -> Plan:
    """Delete the Jobs of earlier attempts, create those that are due, and suspend or resume the existing ones."""
    suspend, policy = jobset.spec.suspend, jobset.spec.failure_policy
    old = [job for job in jobs if attempt_of(job) < status.restarts]
    due = {one.name: one for one in startable(jobset, status)}
    # A deleted Job keeps its name until its pods are gone.
    taken = {job.metadata.name for job in jobs}
    create = [(one, n) for one in due.values() for n in range(one.replicas) if job_name(jobset, one, n) not in taken]
    if old and policy is not None and policy.restart_strategy == "BlockingRecreate":
        create = []
    toggle = [job for job in unfinished(jobs) if job not in old and _name_of(job) in due]
    return Plan(
        _with_progress(jobset, status, now),
        delete=alive(old),
        create=tuple(create),
        toggle=tuple(job for job in toggle if bool(job.spec.suspend) is not suspend),
    )


def startable(jobset: JobSet, status: JobSetStatus) -> Iterator[ReplicatedJob]:
    """Yield the replicated Jobs whose Jobs may be created; only a running JobSet starts them in order."""
    for one in jobset.spec.replicated_jobs:
        yield one
        if _is_in_order(jobset) and not jobset.spec.suspend and not is_started(one, status):
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


def counts(jobset: JobSet, jobs: Iterable[Job]) -> Iterator[ReplicatedJobStatus]:
    """Yield the status of each replicated Job.

    Args:
        jobset: The JobSet.
        jobs: The Jobs of its present attempt that are not being deleted.
    """
    ends = [(_name_of(job), finished_type(job), job) for job in jobs]
    for one in jobset.spec.replicated_jobs:
        going = [job for name, end, job in ends if name == one.name and not end]
        yield ReplicatedJobStatus(
            name=one.name,
            ready=sum(map(_is_ready, going)),
            succeeded=sum(name == one.name and end == COMPLETE for name, end, _ in ends),
            failed=sum(name == one.name and end == FAILED for name, end, _ in ends),
            active=sum(job.status.active > 0 for job in going),
            suspended=sum(bool(job.spec.suspend) for job in going),
        )


def _is_ready(job: Job) -> bool:
    """Return whether as many pods as run at a time are ready, or have succeeded."""
    at_once = 1 if job.spec.parallelism is None else job.spec.parallelism
    wanted = at_once if job.spec.completions is None else min(at_once, job.spec.completions)
    return not job.spec.suspend and (job.status.ready or 0) + job.status.succeeded >= wanted


def _with_progress(jobset: JobSet, status: JobSetStatus, now: datetime) -> JobSetStatus:
    """Return the status with the conditions of a JobSet that has not ended."""
    if _is_in_order(jobset) and not jobset.spec.suspend:
        done = all(is_started(one, status) for one in jobset.spec.replicated_jobs)
        message = "all replicated jobs have started" if done else "replicated jobs start in order"
        status = _with(status, STARTED, done, ("StartupPolicyInOrder", message), now)
    if jobset.spec.suspend:
        return _with(status, SUSPENDED, True, ("SuspendedJobs", "jobset is suspended"), now)
    if kcr.find_condition(status.conditions, SUSPENDED) is not None:
        return _with(status, SUSPENDED, False, ("ResumeJobs", "jobset is resumed"), now)
    return status


def _ended(status: JobSetStatus, state: str, reason: str, message: str, now: datetime) -> JobSetStatus:
    return replace(_with(status, state, True, (reason, message), now), terminal_state=state)


def _with(status: JobSetStatus, kind: str, holds: bool, why: tuple[str, str], now: datetime) -> JobSetStatus:
    condition = kcr.Condition(type=kind, status="True" if holds else "False", reason=why[0], message=why[1])
    return replace(status, conditions=kcr.set_condition(status.conditions, condition, now))


def time_left(jobset: JobSet, status: JobSetStatus, now: datetime) -> timedelta | None:
    """Return the time until an ended JobSet is to be deleted, zero or less if that is now; None for never."""
    ttl = jobset.spec.ttl_seconds_after_finished
    ended = kcr.find_condition(status.conditions, status.terminal_state)
    if ttl is None or ended is None or ended.last_transition_time is None:
        return None
    return ended.last_transition_time + timedelta(seconds=ttl) - now


def alive(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Return the Jobs that are not being deleted."""
    return tuple(job for job in jobs if job.metadata.deletion_timestamp is None)


def unfinished(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Return the Jobs that have not ended, and are not being deleted."""
    return tuple(job for job in alive(jobs) if not is_finished(job))


def job_name(jobset: JobSet, one: ReplicatedJob, index: int) -> str:
    """Return the name of a Job, the same in each attempt: a create is idempotent."""
    return f"{jobset.metadata.name}-{one.name}-{index}"


def attempt_of(job: Job) -> int:
    """Return the attempt that a Job was created for; -1 if its label does not say."""
    attempt = job.metadata.labels.get(ATTEMPT, "")
    return int(attempt) if attempt.isdecimal() else -1


def _name_of(job: Job) -> str:
    return job.metadata.labels.get(REPLICATED_JOB, "")


def _failure(job: Job) -> tuple[str, str]:
    """Return when and why a Job has failed; the earliest sorts first."""
    found = kcr.find_condition(job.status.conditions, FAILED)
    return ("", "") if found is None else (str(found.last_transition_time), found.reason)


def _is_in_order(jobset: JobSet) -> bool:
    return jobset.spec.startup_policy.startup_policy_order == "InOrder"
