"""What to write about a Job once the work is done, before and after the finalizers go."""

from datetime import datetime

from msgspec.structs import replace

from kcr.api.batch import COMPLETE, Job, JobStatus, UncountedTerminatedPods
from kcr.api.conditions import ensure, is_true, made
from kcr.api.indexset import IndexSet
from kcr.api.meta import whole_seconds
from kcr.api.pods import is_ready
from kcr.controllers.job import suspend
from kcr.controllers.job.completion import is_complete
from kcr.controllers.job.conditions import COMPLETIONS_REACHED, INTERIM, SUSPENDED
from kcr.controllers.job.plan import Ending, Outcome, Plan, ScaleDown, ScaleUp, Snapshot, StatusUpdate, Terminate, Work
from kcr.controllers.job.tracking import Listing, counted


def compute_status(seen: Snapshot, plan: Plan, outcome: Outcome) -> StatusUpdate:
    """Return the status to write first, and the pods that may lose their finalizer after it.

    Source: kubernetes/pkg/controller/job/job_controller.go, syncJob and trackJobStatusAndRemoveFinalizers.
    """
    status = _present(seen, plan, outcome)
    ending = _ending(seen, plan, outcome, status.active)
    announcements: tuple[tuple[str, str], ...] = ()
    if plan.managed and ending is None:
        before, status = status, suspend.reported(seen.job, status, seen.now)
        announcements = () if status is before else (_suspension(status),)
    status = counted(status, plan.counts.tracked)
    listing = _listed(seen, plan, status, ending)
    status = _with_indexes(seen, plan, replace(status, uncounted_terminated_pods=listing.uncounted), listing)
    if ending is not None:
        status = _with_interim(status, ending, seen.now)
    return StatusUpdate(
        status=status,
        untrack=tuple(listing.untrack),
        # Pods that were just deleted are no longer as they were seen, and everybody knows how they will end.
        require_version=frozenset() if isinstance(plan.work, Terminate) else frozenset(listing.require_version),
        handled=tuple(listing.handled),
        tracked=plan.counts.tracked,
        ending=ending,
        capped=listing.capped,
        requeue=listing.capped or _put_off(seen, plan.work),
        announcements=announcements,
    )


def finalize_status(update: StatusUpdate, job: Job, untracked: frozenset[str], now: datetime) -> JobStatus:
    """Return the status after the finalizers went: the listed pods counted, and the end recorded if it is one.

    Args:
        update: What was written first.
        job: The Job as that write returned it.
        untracked: UIDs of the pods that have lost their finalizer.
        now: The moment to judge at.
    """
    status = counted(job.status, update.tracked - untracked)
    nothing_listed = status.uncounted_terminated_pods == UncountedTerminatedPods()
    # Not every pod that is let go is listed.
    all_gone = untracked.issuperset(pod.metadata.uid for pod in update.untrack)
    done = nothing_listed and all_gone and not update.capped and not status.terminating and not status.active
    if update.ending is None or not done:
        return status
    kind, reason, message = update.ending
    status = replace(status, conditions=ensure(status.conditions, made(kind, "True", reason, message, now)))
    return _with_times(status, job, kind, whole_seconds(now))


def _present(seen: Snapshot, plan: Plan, outcome: Outcome) -> JobStatus:
    """The status with the numbers of pods as they are after the work."""
    active = len(plan.counts.active) + outcome.created - len(outcome.deleted)
    ready = sum(map(is_ready, plan.counts.active)) - sum(map(is_ready, outcome.deleted))
    return replace(
        seen.job.status,
        start_time=plan.started,
        active=active,
        ready=ready,
        terminating=plan.counts.terminating + len(outcome.deleted),
    )


def _ending(seen: Snapshot, plan: Plan, outcome: Outcome, active: int) -> Ending | None:
    """The ending that holds: not while pods are left that could not be deleted, or were never seen."""
    if plan.ending is not None:
        everything_goes = len(outcome.deleted) == len(plan.counts.active)
        return plan.ending if everything_goes and seen.expectations_met else None
    if seen.expectations_met and is_complete(seen.job, plan.counts.succeeded, active):
        return Ending(COMPLETE, COMPLETIONS_REACHED, "Reached expected number of succeeded pods")
    return None


def _listed(seen: Snapshot, plan: Plan, status: JobStatus, ending: Ending | None) -> Listing:
    indexes = plan.counts.indexes
    listing = Listing(
        replace(seen.job, status=status),
        ending=ending.condition if ending is not None else "",
        succeeding=indexes.succeeded if indexes is not None else IndexSet(),
        held={pod.metadata.uid for pod in indexes.delayed.values()} if indexes is not None else frozenset(),
        limit=seen.limits.max_uncounted,
    )
    for pod in seen.pods:
        if pod.metadata.uid in plan.counts.tracked:
            listing.note(pod)
    return listing


def _with_indexes(seen: Snapshot, plan: Plan, status: JobStatus, listing: Listing) -> JobStatus:
    """The status of an Indexed Job with its indexes on record; their number is the count of successes."""
    indexes = plan.counts.indexes
    if indexes is None:
        return status
    recorded = IndexSet.parse(status.completed_indexes, seen.job.spec.completions or 0)
    completed = recorded | IndexSet.of(listing.completed)
    failed = str(indexes.failed) if indexes.failed is not None else None
    return replace(status, succeeded=len(completed), completed_indexes=str(completed), failed_indexes=failed)


def _with_interim(status: JobStatus, ending: Ending, now: datetime) -> JobStatus:
    """The interim condition is on record before the first finalizer goes: the pods are the only other witness."""
    interim = INTERIM[ending.condition]
    if is_true(status.conditions, interim):
        return status
    condition = made(interim, "True", ending.reason, ending.message, now)
    return replace(status, conditions=ensure(status.conditions, condition))


def _with_times(status: JobStatus, job: Job, kind: str, moment: datetime) -> JobStatus:
    """An ended Job has started, unless it never had to, and has not completed before that, whatever the clock says."""
    start = status.start_time
    if start is None and not (job.spec.suspend and job.spec.completions == 0):
        # Suspended after its last pod was told to go, which then succeeded all the same.
        start = moment
    completed = max(moment, start or moment) if kind == COMPLETE else None
    return replace(status, start_time=start, completion_time=completed)


def _suspension(status: JobStatus) -> tuple[str, str]:
    suspended = is_true(status.conditions, SUSPENDED)
    return ("Suspended", "Job suspended") if suspended else ("Resumed", "Job resumed")


def _put_off(seen: Snapshot, work: Work) -> bool:
    """Creation never happens in the round of a deletion, and no round exceeds the cap: the rest comes again."""
    match work:
        case ScaleDown():
            return not seen.job.spec.suspend
        case ScaleUp(members):
            # Failures that are held until their replacement is there come to be counted once it is.
            replaces = any(member.failures or member.ignored for member in members)
            return replaces or len(members) >= seen.limits.max_changes
        case _:
            return False
