"""The status to write before and after finalizers are removed, so that every finished pod is counted exactly once.

The counting process may be killed at any moment. A pod is in exactly one of these states, and moves only forward:

```
has finalizer, not counted ─▶ UID in uncountedTerminatedPods ─▶ finalizer gone, UID listed ─▶ counted, UID gone
                        status write                    pod patch                     status write
```
"""

from collections.abc import Iterable, Set
from datetime import datetime

from msgspec.structs import replace

from kcr.api.batch import COMPLETE, FAILED, Job, JobStatus, UncountedTerminatedPods, is_indexed
from kcr.api.conditions import ensure, is_condition_true, made
from kcr.api.core import Pod
from kcr.api.meta import whole_seconds
from kcr.api.pods import is_active, is_ready, is_terminal
from kcr.controllers.job.decisions.failures import FAIL_JOB, match_rule
from kcr.controllers.job.decisions.lifecycle import (
    COMPLETIONS_REACHED,
    INTERIM,
    SUSPENDED,
    is_being_deleted,
    is_complete,
    is_ending,
    with_suspension,
)
from kcr.controllers.job.decisions.plan import (
    Ending,
    Outcome,
    Plan,
    ScaleDown,
    ScaleUp,
    Snapshot,
    StatusUpdate,
    Terminate,
    Work,
)
from kcr.controllers.job.decisions.pods import counts_for, has_failed, is_tracked

_NOTHING = UncountedTerminatedPods()


def tracked_uids(pods: Iterable[Pod], untracked: Set[str]) -> frozenset[str]:
    """Return the UIDs of the pods that still carry the finalizer, as far as this process knows."""
    return frozenset(pod.metadata.uid for pod in pods if is_tracked(pod) and pod.metadata.uid not in untracked)


def newly_ended(job: Job, pods: Iterable[Pod], tracked: Set[str]) -> tuple[tuple[Pod, ...], tuple[Pod, ...]]:
    """Return the pods that have succeeded and that have failed, and are in no list yet.

    Source: kubernetes/pkg/controller/job/job_controller.go, getNewFinishedPods.
    """
    listed = job.status.uncounted_terminated_pods or _NOTHING
    # Without its finalizer a pod was counted before, or was never the Job's. A listed one keeps its place.
    unlisted = tracked - {*listed.succeeded, *listed.failed}
    ended = [pod for pod in pods if pod.metadata.uid in unlisted and counts_for(job, pod)]
    succeeded = tuple(pod for pod in ended if pod.status.phase == "Succeeded")
    return succeeded, tuple(pod for pod in ended if has_failed(pod, job))


def counted(status: JobStatus, tracked: Set[str]) -> JobStatus:
    """Return the status with every listed pod that lost its finalizer moved into the counters.

    The lists exist afterwards, though they may be empty: their absence means that no pod has been counted yet.
    """
    listed = status.uncounted_terminated_pods or _NOTHING
    remaining = UncountedTerminatedPods(
        # A listed pod that has its finalizer stays listed. Were it counted now, and this process killed, the next
        # leader would find it tracked and in no list, and count it again.
        succeeded=tuple(uid for uid in listed.succeeded if uid in tracked),
        failed=tuple(uid for uid in listed.failed if uid in tracked),
    )
    return replace(
        status,
        succeeded=status.succeeded + len(listed.succeeded) - len(remaining.succeeded),
        failed=status.failed + len(listed.failed) - len(remaining.failed),
        uncounted_terminated_pods=remaining,
    )


class UncountedPods:
    """Collects the pods of a Job to be listed, and those whose finalizer may be removed.

    A pod that changes its phase after it was listed keeps the place it has. The successes of an Indexed Job are not
    listed: `status.completedIndexes` has all of them at once, and each index counts once whatever becomes of its pods.

    Attributes:
        untrack: The pods to let go.
        require_version: UIDs of those let go uncounted, because they have not ended.
        handled: The actions of the podFailurePolicy's rules that matched, one for each pod that was judged.
        capped: Whether a pod was left for another time because the lists are full, or so many are let go already.
    """

    def __init__(self, job: Job, *, ending: str, held: Set[str], limit: int) -> None:
        """Start with the Job's recorded status.

        Args:
            job: The Job, with the status that is about to be written.
            ending: The terminal condition it is to get, or empty. All its pods are then let go, and if it fails
                they count as failed.
            held: UIDs of failed pods that are needed for their replacement, and do not count before.
            limit: How many pods the lists may hold, with the succeeded pods of an Indexed Job that are let go.
        """
        self._job = job
        self._fails = ending == FAILED
        self._ends = bool(ending) or is_being_deleted(job)
        self._held = held
        listed = job.status.uncounted_terminated_pods or _NOTHING
        # UIDs in the order in which they were found; never one in both.
        self._succeeded = list(listed.succeeded)
        self._failed = list(listed.failed)
        # Invariant: the UIDs of both lists together; `note` enters no pod twice, whatever its phase is by now.
        self._known = {*listed.succeeded, *listed.failed}
        # Succeeded pods of an Indexed Job that are let go.
        self._completed = 0
        self._limit = limit
        self.untrack: list[Pod] = []
        self.require_version: set[str] = set()
        self.handled: list[str] = []
        self.capped: bool = False

    @property
    def uncounted(self) -> UncountedTerminatedPods:
        """The lists, for the status."""
        return UncountedTerminatedPods(succeeded=tuple(self._succeeded), failed=tuple(self._failed))

    def note(self, pod: Pod) -> None:
        """Note one pod that carries the finalizer."""
        succeeded, failed = pod.status.phase == "Succeeded", has_failed(pod, self._job)
        # A pod that runs keeps its finalizer, or its end might be missed; of a Job that ends, all are let go.
        if not self._ends and (pod.metadata.uid in self._held or not (succeeded or failed)):
            return
        # A listed pod is let go even when the lists are full: nothing else empties them.
        if pod.metadata.uid in self._known or self._entered(pod, succeeded=succeeded, failed=failed):
            self.untrack.append(pod)

    def _entered(self, pod: Pod, *, succeeded: bool, failed: bool) -> bool:
        """Enter an unlisted pod where it belongs, if anywhere; return whether it may be let go."""
        counts = counts_for(self._job, pod)
        if counts and succeeded:
            return self._success(pod)
        if counts and (failed or self._fails):
            return self._failure(pod)
        # Between the decision and the patch it may end, and would have to be counted: its version is a precondition.
        if not is_terminal(pod):
            self.require_version.add(pod.metadata.uid)
        return True

    def _success(self, pod: Pod) -> bool:
        if not is_indexed(self._job):
            return self._listed(self._succeeded, pod)
        # Only the number of patches is bounded: its index is on record with this write.
        if self._is_full():
            return False
        self._completed += 1
        return True

    def _failure(self, pod: Pod) -> bool:
        found = match_rule(self._job, pod)
        if found.action == FAIL_JOB and not self._ends:
            # The Job could not be ended yet for this pod, and it is the only witness.
            return False
        entered = not found.counts or self._listed(self._failed, pod)
        if entered and found.action:
            self.handled.append(found.action)
        return entered

    def _listed(self, uids: list[str], pod: Pod) -> bool:
        if self._is_full():
            return False
        uids.append(pod.metadata.uid)
        self._known.add(pod.metadata.uid)
        return True

    def _is_full(self) -> bool:
        # Noted, and the Job is requeued: the next write has the pods that do not fit into this one.
        self.capped |= len(self._known) + self._completed >= self._limit
        return self.capped


def interim_status(seen: Snapshot, plan: Plan) -> JobStatus | None:
    """Return the status to write before pods are deleted because the Job ends; None where there is nothing to write.

    Upstream deletes first. If it dies in between, it finds terminating pods, takes them for failures, and may fail a
    Job that has met its success policy, or give another reason than the one it had. The counts are those of before: the
    server may refuse to delete a pod. The pods that have ended are listed, for they are the reason.
    """
    if not isinstance(plan.work, Terminate) or plan.ending is None or not seen.expectations_met or is_ending(seen.job):
        return None
    return compute_status(seen, plan, Outcome()).status


def compute_status(seen: Snapshot, plan: Plan, outcome: Outcome) -> StatusUpdate:
    """Return the status to write first, and the pods that may lose their finalizer after it.

    Source: kubernetes/pkg/controller/job/job_controller.go, syncJob and trackJobStatusAndRemoveFinalizers.
    """
    status = _present(seen, plan, outcome)
    # The order of the steps is the protocol: the end decides which pods are listed, and all listed pods are on record
    # before any finalizer is removed.
    ending = _ending(seen, plan, status.active)
    announcements: tuple[tuple[str, str], ...] = ()
    # A Job that ends is neither suspended nor resumed any more: the condition would contradict its end.
    if plan.managed and ending is None:
        before, status = status, with_suspension(seen.job, status, seen.now)
        announcements = () if status is before else (_suspension(status),)
    # First the pods of the round before: counting them makes room in the lists.
    status = counted(status, plan.counts.tracked)
    listing = _listed(seen, plan, status, ending, kept=_kept(plan, outcome))
    status = _with_indexes(plan, replace(status, uncounted_terminated_pods=listing.uncounted))
    # In the same write as the lists: once a finalizer is removed, its pod may be deleted, and with it the reason of the
    # end.
    if ending is not None:
        status = _with_interim(status, ending, seen.now)
    return StatusUpdate(
        status=_unless_only_started(seen.job.status, status),
        untrack=tuple(listing.untrack),
        # Pods that were just deleted have a newer version, and their end is already decided.
        require_version=frozenset() if isinstance(plan.work, Terminate) else frozenset(listing.require_version),
        handled=tuple(listing.handled),
        tracked=plan.counts.tracked,
        ending=ending,
        capped=listing.capped,
        requeue=listing.capped or _needs_requeue(seen, plan.work),
        announcements=announcements,
    )


def is_start(before: JobStatus, status: JobStatus) -> bool:
    """Return whether a status is a Job's first, and says only that it has started, and how many pods it has."""
    counts = replace(status, start_time=None, active=0, ready=None, terminating=None, uncounted_terminated_pods=None)
    return before == counts == JobStatus() and status.uncounted_terminated_pods == _NOTHING


def finalize_status(update: StatusUpdate, job: Job, untracked: frozenset[str], now: datetime) -> JobStatus:
    """Return the status after the finalizers are removed: the listed pods counted, and the end recorded if it is one.

    Args:
        update: The first write.
        job: The Job as that write returned it.
        untracked: UIDs of the pods that have lost their finalizer.
        now: The moment to judge at.

    Source: kubernetes/pkg/controller/job/job_controller.go, trackJobStatusAndRemoveFinalizers and enactJobFinished.
    """
    # From the answer to the first write, so that the second has its version as a precondition: of two controllers that
    # count the same pods one meets a conflict.
    status = counted(job.status, update.tracked - untracked)
    nothing_listed = status.uncounted_terminated_pods == UncountedTerminatedPods()
    # Not every pod that is let go is listed.
    all_gone = untracked.issuperset(pod.metadata.uid for pod in update.untrack)
    # The terminal condition comes last: after it no controller reconciles the Job again. So every pod is counted and
    # released by then, and none is active, such as one that could not be deleted, or terminating.
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


def _unless_only_started(before: JobStatus, status: JobStatus) -> JobStatus:
    """The status as it was, if all that is new is the start time; it comes with the next change.

    A Job that is resumed while it is deleted or failing starts no pod: a write that says only that it has started would
    be wrong in all but the letter, and one request more. Its end requires a start time, and has it.
    """
    return before if replace(status, start_time=before.start_time) == before else status


def _ending(seen: Snapshot, plan: Plan, active: int) -> Ending | None:
    """The ending that holds: not while creates are unseen, which may have made another pod."""
    if plan.ending is not None:
        return plan.ending if seen.expectations_met else None
    if seen.expectations_met and is_complete(seen.job, plan.counts.succeeded, active):
        return Ending(COMPLETE, COMPLETIONS_REACHED, "Reached expected number of succeeded pods")
    return None


def _kept(plan: Plan, outcome: Outcome) -> frozenset[str]:
    """The UIDs of the pods that the server would not delete: they run on, and may still succeed or fail."""
    if not isinstance(plan.work, Terminate):
        return frozenset()
    return frozenset(pod.metadata.uid for pod in plan.work.pods) - {pod.metadata.uid for pod in outcome.deleted}


def _listed(seen: Snapshot, plan: Plan, status: JobStatus, ending: Ending | None, *, kept: Set[str]) -> UncountedPods:
    indexes = plan.counts.indexes
    listing = UncountedPods(
        replace(seen.job, status=status),
        ending=ending.condition if ending is not None else "",
        held={pod.metadata.uid for pod in indexes.delayed.values()} if indexes is not None else frozenset(),
        limit=seen.limits.max_uncounted,
    )
    # Those that have ended first: what was listed before the others were deleted stays so, though the lists are full.
    for pod in sorted(seen.pods, key=is_active):
        if pod.metadata.uid in plan.counts.tracked and pod.metadata.uid not in kept:
            listing.note(pod)
    return listing


def _with_indexes(plan: Plan, status: JobStatus) -> JobStatus:
    """The status of an Indexed Job with its indexes on record; their number is the count of successes.

    All at once, as upstream: the text is as short as its runs are few, and a bound would only keep the count behind.
    """
    indexes = plan.counts.indexes
    if indexes is None:
        return status
    failed = str(indexes.failed) if indexes.failed is not None else None
    return replace(
        status, succeeded=len(indexes.succeeded), completed_indexes=str(indexes.succeeded), failed_indexes=failed
    )


def _with_interim(status: JobStatus, ending: Ending, now: datetime) -> JobStatus:
    """Write the interim condition before the first finalizer is removed: the pods are the only other evidence."""
    interim = INTERIM[ending.condition]
    if is_condition_true(status.conditions, interim):
        return status
    condition = made(interim, "True", ending.reason, ending.message, now)
    return replace(status, conditions=ensure(status.conditions, condition))


def _with_times(status: JobStatus, job: Job, kind: str, moment: datetime) -> JobStatus:
    """An ended Job has started, unless it never had to, and has not completed before that, whatever the clock says."""
    start = status.start_time
    if start is None and not (job.spec.suspend and job.spec.completions == 0):
        # Suspended when its last pod was terminating already, which then succeeded all the same.
        start = moment
    completed = max(moment, start or moment) if kind == COMPLETE else None
    return replace(status, start_time=start, completion_time=completed)


def _suspension(status: JobStatus) -> tuple[str, str]:
    suspended = is_condition_true(status.conditions, SUSPENDED)
    return ("Suspended", "Job suspended") if suspended else ("Resumed", "Job resumed")


def _needs_requeue(seen: Snapshot, work: Work) -> bool:
    """Creation never happens in the round of a deletion, and no round exceeds the cap: the rest comes again."""
    match work:
        case ScaleDown():
            return not seen.job.spec.suspend
        case ScaleUp(members):
            # Failures that wait for their replacement are counted once it exists.
            replaces = any(member.failures or member.ignored for member in members)
            return replaces or len(members) >= seen.limits.max_changes
        case _:
            return False
