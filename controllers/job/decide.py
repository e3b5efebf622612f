"""What a Job needs: a snapshot goes in, a plan comes out."""

from collections.abc import Callable
from datetime import timedelta

from msgspec.structs import replace

from controllers.job import backoff, deadline, parallelism
from controllers.job.conditions import (
    BACKOFF_LIMIT_EXCEEDED,
    COMPLETE,
    DEADLINE_EXCEEDED,
    FAILED,
    INTERIM,
    is_being_deleted,
)
from controllers.job.plan import Ending, Hold, Plan, ScaleDown, ScaleUp, Snapshot, Tally, Terminate, Work
from controllers.job.pod_template import restart_policy
from controllers.job.pods import is_active, is_terminating, replaces_only_failed
from controllers.job.tracking import newly_ended, tracked_uids
from kcr.api.conditions import find
from kcr.api.meta import whole_seconds

Rule = Callable[[Snapshot, Tally], Ending | None]

_NOW = timedelta()


def decide(seen: Snapshot) -> Plan:
    """Return what to do about a Job that has not ended.

    Source: kubernetes/pkg/controller/job/job_controller.go, syncJob.
    """
    counts = tally(seen)
    seen = _started(seen)
    record = backoff.advanced(seen.backoff, counts.newly_succeeded, counts.newly_failed)
    ending = next((found for rule in ENDINGS if (found := rule(seen, counts)) is not None), None)
    managed = ending is None and seen.expectations_met and not is_being_deleted(seen.job)
    work, wait = _manage(seen, counts, record) if managed else (_finish(ending, counts), None)
    left = None if ending is not None else deadline.time_left(seen.job, seen.now)
    waits = [moment for moment in (wait, left) if moment is not None]
    return Plan(
        work=work,
        tally=counts,
        ending=ending,
        managed=managed,
        started=seen.job.status.start_time,
        backoff=record,
        requeue_after=min(waits, default=None),
    )


def tally(seen: Snapshot) -> Tally:
    """Sort the pods and add up the totals, the pods listed and not yet counted included."""
    status = seen.job.status
    tracked = tracked_uids(seen.pods, seen.untracked)
    succeeded, failed = newly_ended(seen.job, seen.pods, tracked)
    listed = status.uncounted_terminated_pods
    return Tally(
        active=tuple(pod for pod in seen.pods if is_active(pod)),
        terminating=sum(map(is_terminating, seen.pods)),
        newly_succeeded=succeeded,
        newly_failed=failed,
        succeeded=status.succeeded + len(succeeded) + (len(listed.succeeded) if listed else 0),
        failed=status.failed + len(failed) + (len(listed.failed) if listed else 0),
    )


def already_succeeding(seen: Snapshot, _: Tally) -> Ending | None:
    """An interim success stands; nothing turns it into a failure."""
    return _recorded(seen, COMPLETE)


def already_failing(seen: Snapshot, _: Tally) -> Ending | None:
    """An interim failure stands, with the reason it was recorded with."""
    return _recorded(seen, FAILED)


def past_backoff_limit(seen: Snapshot, counts: Tally) -> Ending | None:
    """Too many pods have failed, or too many containers were restarted."""
    job = seen.job
    if not backoff.limit_exceeded(job, counts.failed) and not backoff.restarts_exceeded(
        job, seen.pods, restart_policy(job)
    ):
        return None
    return Ending(FAILED, BACKOFF_LIMIT_EXCEEDED, "Job has reached the specified backoff limit")


def past_deadline(seen: Snapshot, _: Tally) -> Ending | None:
    """The Job has been active for too long."""
    left = deadline.time_left(seen.job, seen.now)
    if left is None or left > _NOW:
        return None
    return Ending(FAILED, DEADLINE_EXCEEDED, "Job was active longer than specified deadline")


# A Job may satisfy several rules at once. The first to hold names the end, so order is contract.
ENDINGS: tuple[Rule, ...] = (already_succeeding, already_failing, past_backoff_limit, past_deadline)


def _recorded(seen: Snapshot, terminal: str) -> Ending | None:
    condition = find(seen.job.status.conditions, INTERIM[terminal])
    if condition is None or condition.status != "True":
        return None
    return Ending(terminal, condition.reason, condition.message)


def _started(seen: Snapshot) -> Snapshot:
    """A Job starts with the first reconcile that finds it not suspended."""
    status = seen.job.status
    if status.start_time is not None or seen.job.spec.suspend:
        return seen
    status = replace(status, start_time=whole_seconds(seen.now))
    return replace(seen, job=replace(seen.job, status=status))


def _finish(ending: Ending | None, counts: Tally) -> Work:
    return Terminate(counts.active) if ending is not None and counts.active else Hold()


def _manage(seen: Snapshot, counts: Tally, record: backoff.Backoff) -> tuple[Work, timedelta | None]:
    """Return how the number of pods is put right, and how long that has to wait."""
    job, limits = seen.job, seen.limits
    if job.spec.suspend:
        return (ScaleDown(counts.active) if counts.active else Hold()), None
    active = len(counts.active)
    wanted = parallelism.wanted(job, active, counts.succeeded)
    too_many = parallelism.surplus(counts.active, min(active - wanted, limits.max_changes))
    if too_many:
        return ScaleDown(too_many), None
    # Under the policy Failed a pod that is going still holds its place.
    missing = wanted - active - (counts.terminating if replaces_only_failed(job) else 0)
    if missing <= 0:
        return Hold(), None
    wait = backoff.time_left(record, seen.now, limits.backoff_base_seconds, limits.backoff_max_seconds)
    return (Hold(), wait) if wait > _NOW else (ScaleUp(min(missing, limits.max_changes)), None)
