"""Ended Jobs that go when their time is up (`spec.ttlSecondsAfterFinished`), as a controller of its own.

Failed ones may have a time of their own (`kcr.dev/ttl-after-failure`).

Source: kubernetes/pkg/controller/ttlafterfinished/ttlafterfinished_controller.go.
"""

import asyncio
from datetime import datetime, timedelta
from typing import Annotated

import msgspec
from msgspec import Meta
from prometheus_client import Histogram

from kcr.api.batch import COMPLETE, FAILED, Job, is_finished
from kcr.api.meta import Key
from kcr.client import Client
from kcr.clock import Clock
from kcr.controller import Result, rights, watch
from kcr.controller.gates import is_paused
from kcr.controllers import require_take_over
from kcr.controllers.job.decisions.directives import time_to_live
from kcr.controllers.job.decisions.lifecycle import is_being_deleted
from kcr.errors import KcrError, NotFoundError
from kcr.informer import Store
from kcr.log import get_logger
from kcr.manager import Manager

_log = get_logger()

# Source: kubernetes/pkg/controller/ttlafterfinished/metrics/metrics.go.
LATENCY_BUCKETS = tuple(0.1 * 2**power for power in range(14))
# How often deletions are summed up in the log.
SUMMARY_SECONDS = 60.0
# After SIGTERM the next process completes what is cut off here.
GRACE_SECONDS = 0.2
# When a Job is reconciled again that is paused on the server, and not yet in the store.
_UNSEEN_PAUSE = timedelta(seconds=5)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the TTL controller, each also a variable: `KCR_` and its name in capitals."""

    workers: Annotated[int, Meta(ge=1), "Jobs checked and deleted at the same time."] = 5
    take_over: Annotated[bool, "Whether the cluster's own controller is off: Jobs cannot choose."] = False


def setup(manager: Manager, options: Options) -> None:
    """Attach the controller to a manager; `spec.managedBy` means nothing to it.

    Raises:
        ConfigError: It would run beside the cluster's own.
    """
    require_take_over("ttl", instead_of="ttl-after-finished-controller", take_over=options.take_over)
    latency = Histogram(
        "ttl_after_finished_controller_job_deletion_duration_seconds",
        "The time it took to delete the job since it became eligible for deletion.",
        buckets=LATENCY_BUCKETS, registry=manager.metrics.registry,
    )  # fmt: skip
    summary = DeletionSummary()
    manager.add(summary, needs_leader_election=False)
    manager.add_controller(
        "ttl_jobs_to_delete",
        TtlReconciler(manager.client, manager.store(Job), manager.clock, latency, summary),
        watches=[watch(Job, predicate=lambda _, new: new is not None and needs_cleanup(new))],
        workers=options.workers,
        graceful_shutdown_timeout=GRACE_SECONDS,
        rights=rights(Job, "get", "delete"),
    )


def needs_cleanup(job: Job) -> bool:
    """Return whether the Job is to go some day, has ended, and is not on its way already."""
    return time_to_live(job) is not None and is_finished(job) and not is_being_deleted(job)


def time_left(job: Job, now: datetime) -> timedelta:
    """Return how long an ended Job stays; zero or less means that its time is up.

    The time runs from the first condition that says how it ended. That moment is from its writer's clock:
    when it lies in the future, the Job stays for longer than its TTL.

    Args:
        job: A Job that needs cleanup.
        now: The moment to judge at, timezone-aware UTC.

    Raises:
        ValueError: The Job is not to be cleaned up at all.
        NoFinishTimeError: No condition tells when it ended.

    Source: kubernetes/pkg/controller/ttlafterfinished/ttlafterfinished_controller.go, timeLeft.
    """
    ttl = time_to_live(job)
    if ttl is None or not needs_cleanup(job):
        raise ValueError(f"job {job.key} should not be cleaned up")
    # No sum of moment and TTL is made: that may be beyond all calendars.
    return ttl.duration - (now - _finished_at(job))


class NoFinishTimeError(KcrError):
    """A Job says that it has ended, and not when."""


class DeletionSummary:
    """Logs how many Jobs were deleted, once a minute at most; the line of each is at the level debug."""

    name = "ttl summary"

    def __init__(self) -> None:
        self._count = 0
        self._some = asyncio.Event()

    def note(self) -> None:
        """Count one deletion."""
        self._count += 1
        self._some.set()

    async def run(self) -> None:
        """Log until cancelled; the remaining count is logged at the end."""
        while True:
            await self._some.wait()
            try:
                await asyncio.sleep(SUMMARY_SECONDS)
            finally:
                _log.info("jobs deleted: their TTL has expired", count=self._count)
                self._count = 0
                self._some.clear()


class TtlReconciler:
    """Deletes the Jobs whose time to live has passed; each is read live first."""

    def __init__(
        self, client: Client, jobs: Store[Job], clock: Clock, latency: Histogram, summary: "DeletionSummary"
    ) -> None:
        self._client = client
        self._jobs = jobs
        self._clock = clock
        self._latency = latency
        self._summary = summary

    async def reconcile(self, key: Key) -> Result:
        """Delete one Job, or come back when its time is up.

        Source: kubernetes/pkg/controller/ttlafterfinished/ttlafterfinished_controller.go, processJob.
        """
        job = self._jobs.get(key)
        left = None if job is None else self._left(job)
        if left is None or left > timedelta():
            return Result(requeue_after=left)
        try:
            # The TTL may have been raised since, the Job be paused, or be another one of the same name.
            job = await self._client.get(Job, key)
            left = self._left(job)
            if left is None or left > timedelta():
                return Result(requeue_after=left)
            if is_paused(job):
                return Result(requeue_after=_UNSEEN_PAUSE)
            await self._client.delete(Job, key, uid=job.metadata.uid, propagation="Foreground")
        except NotFoundError:
            return Result()
        late, ttl = -time_left(job, self._clock.now()), time_to_live(job)
        self._latency.observe(late.total_seconds())
        _log.debug(
            "job deleted: its TTL has expired", ttl_seconds=ttl.duration.total_seconds() if ttl is not None else None
        )
        self._summary.note()
        return Result()

    def _left(self, job: Job) -> timedelta | None:
        if not needs_cleanup(job):
            return None
        now = self._clock.now()
        ahead = (_finished_at(job) - now).total_seconds()
        if ahead > 0:
            _log.warning("job finished in the future, likely clock skew: its deletion is deferred", seconds_ahead=ahead)
        return time_left(job, now)


def _finished_at(job: Job) -> datetime:
    ends = (end for end in job.status.conditions if end.type in (COMPLETE, FAILED) and end.status == "True")
    moment = next(ends).last_transition_time
    # Year 1 is how the server's language writes that there is none.
    if moment is None or moment.year == 1:
        raise NoFinishTimeError(f"unable to find the time when the Job {job.key} finished")
    return moment
