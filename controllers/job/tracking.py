"""Counting every pod that has ended exactly once, although the counting process may die at any moment.

A pod is in exactly one of these states, and moves only forward:

```
has finalizer, not counted ─▶ UID in uncountedTerminatedPods ─▶ finalizer gone, UID listed ─▶ counted, UID gone
                        status write                    pod patch                     status write
```
"""

from collections.abc import Iterable, Set

from msgspec.structs import replace

from controllers.job.conditions import is_being_deleted
from controllers.job.pods import has_failed, is_tracked
from kcr.api.batch import Job, JobStatus, UncountedTerminatedPods
from kcr.api.core import Pod

_NOTHING = UncountedTerminatedPods()


def tracked_uids(pods: Iterable[Pod], untracked: Set[str]) -> frozenset[str]:
    """Return the UIDs of the pods that still carry the finalizer, as far as anybody knows."""
    return frozenset(pod.metadata.uid for pod in pods if is_tracked(pod) and pod.metadata.uid not in untracked)


def newly_ended(job: Job, pods: Iterable[Pod], tracked: Set[str]) -> tuple[tuple[Pod, ...], tuple[Pod, ...]]:
    """Return the pods that have succeeded and that have failed, and are in no list yet.

    Source: kubernetes/pkg/controller/job/job_controller.go, getNewFinishedPods.
    """
    listed = job.status.uncounted_terminated_pods or _NOTHING
    open_pods = [pod for pod in pods if pod.metadata.uid in tracked]
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

    A pod that changes its phase after it was listed keeps the place it has.
    """

    def __init__(self, job: Job, listed: UncountedTerminatedPods, *, limit: int, ends: bool, fails: bool) -> None:
        self._job = job
        # What the Job's end means for the pods that have not ended: all of them are let go, and if the Job
        # fails they count as failed.
        self._ends = ends or is_being_deleted(job)
        self._fails = fails
        # UIDs in the order in which they were found; never one in both.
        self._succeeded = list(listed.succeeded)
        self._failed = list(listed.failed)
        self._known = {*listed.succeeded, *listed.failed}
        self._limit = limit
        self.untrack: list[Pod] = []
        # UIDs of those let go uncounted, because they have not ended.
        self.uncounted_for_good: set[str] = set()
        # Whether a pod was left for another time because the lists are full.
        self.capped = False

    @property
    def uncounted(self) -> UncountedTerminatedPods:
        """The lists, for the status."""
        return UncountedTerminatedPods(succeeded=tuple(self._succeeded), failed=tuple(self._failed))

    def note(self, pod: Pod) -> None:
        """Note one pod that carries the finalizer."""
        succeeded, failed = pod.status.phase == "Succeeded", has_failed(pod, self._job)
        if not (self._ends or succeeded or failed):
            return
        uid = pod.metadata.uid
        if uid not in self._known and (succeeded or failed or self._fails):
            if len(self._known) >= self._limit:
                self.capped = True
                return
            (self._succeeded if succeeded else self._failed).append(uid)
            self._known.add(uid)
        if uid not in self._known:
            self.uncounted_for_good.add(uid)
        # A listed pod is let go even when the lists are full: nothing else empties them.
        self.untrack.append(pod)
