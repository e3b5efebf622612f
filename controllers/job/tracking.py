"""Counting every pod that has ended exactly once, although the counting process may die at any moment.

A pod is in exactly one of these states, and moves only forward:

```
has finalizer, not counted ─▶ UID in uncountedTerminatedPods ─▶ finalizer gone, UID listed ─▶ counted, UID gone
                        status write                    pod patch                     status write
```
"""

from collections.abc import Iterable, Set

from msgspec.structs import replace

from kcr.api.batch import FAILED, Job, JobStatus, UncountedTerminatedPods
from kcr.api.core import Pod
from kcr.api.indexset import IndexSet
from kcr.api.pods import is_terminal
from kcr.controllers.job.conditions import is_being_deleted
from kcr.controllers.job.failure_policy import FAIL_JOB, match_rule
from kcr.controllers.job.pods import counts_for, has_failed, index_in, is_indexed, is_tracked

_NOTHING = UncountedTerminatedPods()


def tracked_uids(pods: Iterable[Pod], untracked: Set[str]) -> frozenset[str]:
    """Return the UIDs of the pods that still carry the finalizer, as far as anybody knows."""
    return frozenset(pod.metadata.uid for pod in pods if is_tracked(pod) and pod.metadata.uid not in untracked)


def newly_ended(job: Job, pods: Iterable[Pod], tracked: Set[str]) -> tuple[tuple[Pod, ...], tuple[Pod, ...]]:
    """Return the pods that have succeeded and that have failed, and are in no list yet.

    Source: kubernetes/pkg/controller/job/job_controller.go, getNewFinishedPods.
    """
    listed = job.status.uncounted_terminated_pods or _NOTHING
    open_pods = [pod for pod in pods if pod.metadata.uid in tracked and counts_for(job, pod)]
    succeeded = (p for p in open_pods if p.status.phase == "Succeeded" and p.metadata.uid not in listed.succeeded)
    failed = (p for p in open_pods if has_failed(p, job) and p.metadata.uid not in listed.failed)
    return tuple(p for p in succeeded if p.metadata.uid not in listed.failed), tuple(failed)


def counted(status: JobStatus, tracked: Set[str]) -> JobStatus:
    """Return the status with every listed pod that lost its finalizer moved into the counters.

    The lists are there afterwards, though they may be empty: their absence means that nobody has counted yet.
    """
    listed = status.uncounted_terminated_pods or _NOTHING
    remaining = UncountedTerminatedPods(
        succeeded=tuple(uid for uid in listed.succeeded if uid in tracked),
        failed=tuple(uid for uid in listed.failed if uid in tracked),
    )
    return replace(
        status,
        succeeded=status.succeeded + len(listed.succeeded) - len(remaining.succeeded),
        failed=status.failed + len(listed.failed) - len(remaining.failed),
        uncounted_terminated_pods=remaining,
    )


class Listing:
    """Goes through the pods of a Job once and notes which are to be listed, and which may be let go.

    A pod that changes its phase after it was listed keeps the place it has. The successes of an Indexed Job are
    listed by index, in `status.completedIndexes`, where each counts once.

    Attributes:
        untrack: The pods to let go.
        require_version: UIDs of those let go uncounted, because they have not ended.
        completed: Indexes that have newly succeeded.
        handled: The actions of the podFailurePolicy's rules that matched, one for each pod that was judged.
        capped: Whether a pod was left for another time because the lists are full.
    """

    def __init__(self, job: Job, *, ending: str, succeeding: IndexSet, held: Set[str], limit: int) -> None:
        """Start with what the Job's status has on record.

        Args:
            job: The Job, with the status that is about to be written.
            ending: The terminal condition it is to get, or empty. All its pods are then let go, and if it fails
                they count as failed.
            succeeding: The indexes whose success is to be recorded, if they are not on record.
            held: UIDs of failed pods that are needed for their replacement, and do not count before.
            limit: How many pods the lists may hold.
        """
        self._job = job
        self._fails = ending == FAILED
        self._ends = bool(ending) or is_being_deleted(job)
        self._held = held
        self._succeeding = succeeding
        self._recorded = IndexSet.parse(job.status.completed_indexes, job.spec.completions or 0)
        listed = job.status.uncounted_terminated_pods or _NOTHING
        # UIDs in the order in which they were found; never one in both.
        self._succeeded = list(listed.succeeded)
        self._failed = list(listed.failed)
        self._known = {*listed.succeeded, *listed.failed}
        self._limit = limit
        self.untrack: list[Pod] = []
        self.require_version: set[str] = set()
        self.completed: set[int] = set()
        self.handled: list[str] = []
        self.capped = False

    @property
    def uncounted(self) -> UncountedTerminatedPods:
        """The lists, for the status."""
        return UncountedTerminatedPods(succeeded=tuple(self._succeeded), failed=tuple(self._failed))

    def note(self, pod: Pod) -> None:
        """Note one pod that carries the finalizer."""
        succeeded, failed = pod.status.phase == "Succeeded", has_failed(pod, self._job)
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
        if not is_terminal(pod):
            self.require_version.add(pod.metadata.uid)
        return True

    def _success(self, pod: Pod) -> bool:
        if not is_indexed(self._job):
            return self._listed(self._succeeded, pod)
        index = index_in(self._job, pod)
        if index is None or index in self.completed or index in self._recorded or index not in self._succeeding:
            return True
        if self._is_full():
            return False
        self.completed.add(index)
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
        self.capped |= len(self._known) + len(self.completed) >= self._limit
        return self.capped
