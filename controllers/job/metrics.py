"""The metrics of the Job controller, under upstream's names.

Source: kubernetes/pkg/controller/job/metrics/metrics.go.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kcr.api.batch import COMPLETE, FAILED, Job, JobStatus, is_indexed
from kcr.api.conditions import find_condition
from kcr.api.core import Pod
from kcr.api.indexset import IndexSet
from kcr.api.meta import Key
from kcr.api.pods import is_terminal
from kcr.clock import Clock
from kcr.controllers.job.decisions.plan import Outcome, Plan, ScaleDown, ScaleUp
from kcr.controllers.job.decisions.pods import finish_time, is_tracked
from kcr.informer import Handler

SYNC_BUCKETS = tuple(0.004 * 2**power for power in range(15))

_SYNC = ("completion_mode", "result", "action")

# The result of a sync: number of pods not managed; managed, nothing to do; pods created, perhaps later; pods deleted.
Action = Literal["reconciling", "tracking", "pods_created", "pods_deleted"]
Reason = Literal["new", "recreate_terminating_or_failed", "recreate_failed"]


class JobMetrics:
    """The metrics of one Job controller.

    Attributes:
        handled: Failures by the action of a podFailurePolicy that matched them.
        terminated: Pods that have ended with the tracking finalizer (`add`), or have lost it since (`delete`).
        external: Jobs by the other controller that they name.
        stale: Passes put off until the store of a kind, by group and plural, shows the controller's own writes.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the metrics; series appear with their first count."""

        def counter(name: str, text: str, *labels: str) -> Callable[..., Counter]:
            # Each series is looked up once: that takes longer than to count.
            return cache(Counter(f"job_controller_{name}", text, labels, registry=registry).labels)

        seconds = Histogram(
            "job_controller_job_sync_duration_seconds", "The time it took to sync a job.",
            _SYNC, buckets=SYNC_BUCKETS, registry=registry,
        )  # fmt: skip
        self._sync_seconds: Callable[..., Histogram] = cache(seconds.labels)
        self._syncs = counter("job_syncs_total", "The number of job syncs.", *_SYNC)
        self._jobs = counter(
            "jobs_finished_total", "The number of finished jobs.", "completion_mode", "result", "reason"
        )
        self._pods = counter(
            "job_pods_finished_total",
            "The number of finished Pods that are fully tracked.",
            "completion_mode",
            "result",
        )
        self._indexes = counter(
            "job_finished_indexes_total", "The number of finished indexes.", "status", "backoffLimit"
        )
        self.handled: Callable[..., Counter] = counter(
            "pod_failures_handled_by_failure_policy_total",
            "The number of failed Pods handled by failure policy.",
            "action",
        )
        self.terminated: Callable[..., Counter] = counter(
            "terminated_pods_tracking_finalizer_total",
            "The number of terminated pods that have, or have lost, the finalizer batch.kubernetes.io/job-tracking.",
            "event",
        )
        self._creations = counter(
            "job_pods_creation_total", "The number of Pods created by the Job controller.", "reason", "status"
        )
        self.external: Callable[..., Counter] = counter(
            "jobs_by_external_controller_total",
            "The number of Jobs managed by an external controller.",
            "controller_name",
        )
        self.stale: Callable[..., Counter] = counter(
            "stale_sync_skips_total",
            "Total number of Job syncs skipped due to a stale watch cache.",
            "group",
            "resource",
        )

    @contextmanager
    def sync(self, job: Job) -> Iterator["Sync"]:
        """Count a pass over a Job, and how long it takes: the context. One that is cancelled is none."""
        now, sync = asyncio.get_running_loop().time, Sync()
        began = now()
        try:
            yield sync
        except Exception:
            self._synced(job, sync, "error", now() - began)
            raise
        self._synced(job, sync, "success", now() - began)

    def _synced(self, job: Job, sync: "Sync", result: str, seconds: float) -> None:
        labels = (completion_mode(job), result, sync.action)
        self._syncs(*labels).inc()
        self._sync_seconds(*labels).observe(seconds)

    def recorded(self, before: JobStatus, job: Job) -> None:
        """Count the pods and indexes that a write of the status has counted.

        Args:
            before: The status that was overwritten.
            job: The Job as the server returned it.
        """
        for result, count in zip(("succeeded", "failed"), ended_pods(before, job), strict=True):
            pods = self._pods(completion_mode(job), result)
            if count:
                pods.inc(count)
        if not is_indexed(job):
            return
        succeeded, failed = ended_indexes(before, job)
        per_index = job.spec.backoff_limit_per_index is not None
        limit = "perIndex" if per_index else "global"
        self._indexes("succeeded", limit).inc(succeeded)
        if per_index:
            self._indexes("failed", limit).inc(failed)

    def finished(self, job: Job) -> None:
        """Count a Job that has just ended."""
        ends = (find_condition(job.status.conditions, kind) for kind in (COMPLETE, FAILED))
        for end in ends:
            if end is not None and end.status == "True":
                result = "failed" if end.type == FAILED else "succeeded"
                self._jobs(completion_mode(job), result, end.reason).inc()

    def created(self, reason: Reason, outcome: Outcome) -> None:
        """Count creations of pods; unlike upstream, one that failed has not succeeded as well.

        One without an answer is neither, until its result is known.
        """
        there = outcome.created - outcome.unconfirmed
        for status, count in (("succeeded", there), ("failed", outcome.refused)):
            if count:
                self._creations(reason, status).inc(count)


class Sync:
    """A pass over a Job that is under way.

    Attributes:
        action: Its effect on the number of pods.
    """

    def __init__(self) -> None:
        self.action: Action = "reconciling"


class ExternalJobs(Handler[Job]):
    """Counts the Jobs that name another controller.

    Source: kubernetes/pkg/controller/job/job_controller.go, addJob.
    """

    def __init__(self, metrics: JobMetrics, ours: Collection[str]) -> None:
        """Count in `metrics`; `ours` are the names that are no third controller's."""
        self._metrics = metrics
        self._ours = ours

    def on_add(self, obj: Job, initial: bool) -> None:
        """A Job came."""
        if obj.spec.managed_by is not None and obj.spec.managed_by not in self._ours:
            self._metrics.external(obj.spec.managed_by).inc()


class EndedPods(Handler[Pod]):
    """Counts the pods that have ended with the tracking finalizer, and those that have lost it, of all owners.

    Source: kubernetes/pkg/controller/job/job_controller.go, recordFinishedPodWithTrackingFinalizer.
    """

    def __init__(self, metrics: JobMetrics, registry: CollectorRegistry, clock: Clock) -> None:
        """Count in `metrics`, and register how long the oldest of them has waited."""
        self._metrics = metrics
        self._clock = clock
        # When the pods ended that have the finalizer, or when that was observed.
        self._held: dict[Key, datetime] = {}
        text = (
            "Seconds since the end of the pod that has kept the finalizer batch.kubernetes.io/job-tracking for longest"
        )
        Gauge("kcr_job_oldest_uncounted_pod_seconds", text, registry=registry).set_function(self.oldest_seconds)

    def oldest_seconds(self) -> float:
        """Return how long ago the pod ended that has kept the finalizer for longest; 0 when none has it."""
        now = self._clock.now()
        return max(0.0, (now - min(self._held.values(), default=now)).total_seconds())

    def on_add(self, obj: Pod, initial: bool) -> None:
        """A pod came."""
        if _is_held(obj):
            self._hold(obj.key, finish_time(obj) or self._clock.now())

    def on_update(self, old: Pod, new: Pod) -> None:
        """A pod changed."""
        before, after = _is_held(old), _is_held(new)
        if after and not before:
            self._hold(new.key, self._clock.now())
        elif before and not after:
            self._release(new.key)

    def on_delete(self, obj: Pod, final_state_unknown: bool) -> None:
        """A pod was deleted. If that was not seen, its last state does not say whether it still had the finalizer."""
        if not final_state_unknown and _is_held(obj):
            self._release(obj.key)
        self._held.pop(obj.key, None)

    def _hold(self, key: Key, since: datetime) -> None:
        self._metrics.terminated("add").inc()
        self._held[key] = since

    def _release(self, key: Key) -> None:
        self._metrics.terminated("delete").inc()
        self._held.pop(key, None)


def completion_mode(job: Job) -> str:
    """Return the Job's mode, the default when it names none."""
    return job.spec.completion_mode or "NonIndexed"


def action_of(job: Job, plan: Plan) -> Action:
    """Return the action of a sync on the number of pods.

    Creations that have to wait are creations all the same; and a Job that is suspended deletes, be it nothing.

    Source: kubernetes/pkg/controller/job/job_controller.go, manageJob.
    """
    match plan.work:
        case ScaleUp():
            return "pods_created"
        case ScaleDown():
            return "pods_deleted"
        case _ if not plan.managed:
            return "reconciling"
        case _ if job.spec.suspend:
            return "pods_deleted"
        case _:
            return "pods_created" if plan.delayed else "tracking"


def creation_reason(job: Job, failed: int, terminating: int) -> Reason:
    """Return why pods are created, if there is one reason for all of them.

    Args:
        job: Their Job.
        failed: How many pods have failed.
        terminating: How many are about to go.

    Source: kubernetes/pkg/controller/job/job_controller.go, manageJob.
    """
    if job.spec.pod_replacement_policy == "Failed" and failed > 0:
        return "recreate_failed"
    return "recreate_terminating_or_failed" if failed > 0 or terminating > 0 else "new"


def ended_pods(before: JobStatus, job: Job) -> tuple[int, int]:
    """Return how many successes and failures of pods a write of the status has counted.

    The successes of an Indexed Job are those of the indexes it still has.

    Source: kubernetes/pkg/controller/job/job_controller.go, recordJobPodFinished.
    """
    now = job.status
    failed = max(0, now.failed - before.failed)
    if is_indexed(job):
        return _more(job, before.completed_indexes, now.completed_indexes), failed
    return max(0, now.succeeded - before.succeeded), failed


def ended_indexes(before: JobStatus, job: Job) -> tuple[int, int]:
    """Return the numbers of indexes that a status write marks as succeeded and as failed."""
    now = job.status
    failed = _more(job, before.failed_indexes or "", now.failed_indexes or "")
    return _more(job, before.completed_indexes, now.completed_indexes), failed


def _more(job: Job, before: str, now: str) -> int:
    """Indexes beyond the present number of completions count on neither side."""
    below = job.spec.completions or 0
    return max(0, len(IndexSet.parse(now, below)) - len(IndexSet.parse(before, below)))


def _is_held(pod: Pod) -> bool:
    return is_terminal(pod) and is_tracked(pod)
