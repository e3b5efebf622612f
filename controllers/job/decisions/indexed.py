"""Indexed Jobs: which indexes have succeeded, failed or wait, which pods are too many, and which come next.

With `spec.backoffLimitPerIndex` every index fails, waits and is tried again for itself. The pod that failed last then
keeps its finalizer, and does not count yet, until its replacement is in the store: how often the index has failed is
written on the pod, and the replacement is made from it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import timedelta
from itertools import islice
from typing import NamedTuple

from kcr.api.batch import Job, is_indexed
from kcr.api.core import Pod
from kcr.api.indexset import IndexSet
from kcr.api.pods import is_active, ranked
from kcr.controllers.job.decisions.failures import FAIL_INDEX, Backoff, match_rule
from kcr.controllers.job.decisions.pod_template import IndexedPod
from kcr.controllers.job.decisions.pods import (
    failures_before,
    finish_time,
    has_failed,
    ignored_failures_before,
    index_in,
)


class Indexes(NamedTuple):
    """The indexes of a Job, by outcome.

    Attributes:
        succeeded: Those on record, and those whose pod has succeeded since.
        failed: Those that are not tried again; None without `spec.backoffLimitPerIndex`. Never one in both.
        delayed: Those to be tried again, each with the pod that failed last.
    """

    succeeded: IndexSet
    failed: IndexSet | None
    delayed: Mapping[int, Pod]

    @property
    def over(self) -> IndexSet:
        """Those that need no pod any more."""
        return self.succeeded if self.failed is None else self.succeeded | self.failed


def sort(job: Job, pods: Iterable[Pod], tracked: Set[str]) -> Indexes | None:
    """Return the Job's indexes by outcome, or None if it has none.

    Args:
        job: The Job; the indexes in its status stay on record.
        pods: Its pods.
        tracked: UIDs of the pods that still carry the finalizer; the others are on record.

    Source: kubernetes/pkg/controller/job/indexed_job_utils.go.
    """
    if not is_indexed(job):
        return None
    status, completions = job.status, job.spec.completions or 0
    given_up = IndexSet.parse(status.failed_indexes or "", completions)
    listed = status.uncounted_terminated_pods.failed if status.uncounted_terminated_pods else ()
    placed = [(index, pod) for pod in pods if (index := index_in(job, pod)) is not None]
    # A pod without its finalizer is on record; an index that has failed permanently stays failed, whatever its pods do.
    ended = [(index, pod) for index, pod in placed if pod.metadata.uid in tracked and index not in given_up]
    # A pod that was counted as failed stays so, though it succeeded in the end.
    done = (i for i, pod in ended if pod.status.phase == "Succeeded" and pod.metadata.uid not in listed)
    succeeded = IndexSet.parse(status.completed_indexes, completions) | IndexSet.of(done)
    if job.spec.backoff_limit_per_index is None:
        return Indexes(succeeded, None, {})
    # Invariant: no index is in both sets. One that has succeeded cannot fail any more.
    bad = [(index, pod) for index, pod in ended if has_failed(pod, job) and index not in succeeded]
    failed = given_up | IndexSet.of(index for index, pod in bad if _is_last_failure(job, pod))
    active = {index for index, pod in placed if is_active(pod)}
    return Indexes(succeeded, failed, _delayed((i, pod) for i, pod in bad if i not in failed and i not in active))


def _is_last_failure(job: Job, pod: Pod) -> bool:
    found = match_rule(job, pod)
    if found.action == FAIL_INDEX:
        return True
    return found.counts and failures_before(pod) >= (job.spec.backoff_limit_per_index or 0)


def _delayed(failures: Iterable[tuple[int, Pod]]) -> Mapping[int, Pod]:
    latest: dict[int, Pod] = {}
    for index, pod in failures:
        if index not in latest or _rank(pod) >= _rank(latest[index]):
            latest[index] = pod
    return latest


def _rank(pod: Pod) -> tuple[int, float]:
    ended = finish_time(pod)
    return _tries(pod), ended.timestamp() if ended is not None else 0.0


def _tries(pod: Pod) -> int:
    return failures_before(pod) + ignored_failures_before(pod)


def as_backoff(pod: Pod) -> Backoff:
    """Return the failures of one index as a record of its own, given the pod that failed last."""
    return Backoff(_tries(pod) + 1, finish_time(pod))


def surplus(job: Job, active: Iterable[Pod], at_least: int) -> tuple[Pod, ...]:
    """Return the pods to remove: those without a valid index, all but one of each index, and then as many as asked for.

    Of several pods with one index the one that has got furthest stays. So does the rest, as far as possible.

    Source: kubernetes/pkg/controller/job/indexed_job_utils.go, appendDuplicatedIndexPodsForRemoval.
    """
    # Those that have got least far come first, so the last one that a dict keeps of an index is the furthest.
    order = ranked(active)
    best = {index: pod for pod in order if (index := index_in(job, pod)) is not None}
    kept = {pod.metadata.uid for pod in best.values()}
    needless = [pod for pod in order if pod.metadata.uid not in kept]
    more = [pod for pod in order if pod.metadata.uid in kept][: max(0, at_least - len(needless))]
    return (*needless, *more)


def members(
    job: Job, indexes: Indexes, present: Sequence[Pod], count: int, wait: Callable[[Backoff], timedelta]
) -> tuple[tuple[IndexedPod, ...], timedelta | None]:
    """Return the pods to create, the lowest indexes first, and how long the next one has to wait if there is room.

    An index that waits blocks no other one, unlike upstream, where it fills the place of a higher one.

    Args:
        job: The Job.
        indexes: The results of its indexes.
        present: The pods that hold their index: active ones, and terminating ones where those are waited for.
        count: How many pods there is room for.
        wait: Says how long an index with these failures has to wait.

    Source: kubernetes/pkg/controller/job/indexed_job_utils.go, firstPendingIndexes; job_controller.go,
    getIndexesForCreation.
    """
    delays = {index: wait(as_backoff(pod)) for index, pod in indexes.delayed.items()}
    waiting = {index: delay for index, delay in delays.items() if delay > timedelta()}
    taken = IndexSet.of({*waiting, *(index for pod in present if (index := index_in(job, pod)) is not None)})
    chosen = tuple(islice((indexes.over | taken).gaps(job.spec.completions or 0), count))
    # With all places taken there is nothing to wait for: the end of a pod enqueues the Job.
    left = min(waiting.values(), default=None) if len(chosen) < count else None
    return tuple(_member(job, index, indexes.delayed.get(index)) for index in chosen), left


def _member(job: Job, index: int, last: Pod | None) -> IndexedPod:
    if job.spec.backoff_limit_per_index is None:
        return IndexedPod(index)
    if last is None:
        return IndexedPod(index, 0)
    counts = match_rule(job, last).counts
    return IndexedPod(index, failures_before(last) + counts, ignored_failures_before(last) + (not counts))
