"""The status of a CronJob: its list of active Jobs, when it last ran and succeeded; and unconfirmed references.

The list and the store may each be behind the other. A Job that only one of them has is an unconfirmed reference: the
API server is asked before anything is done about it.
"""

from collections.abc import Iterable, Sequence, Set
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace

from kcr.api.batch import CronJob, CronJobStatus, Job, finished_type, is_requested, is_succeeded
from kcr.api.core import ObjectReference, reference_to
from kcr.api.meta import is_controlled_by
from kcr.controllers.cronjob.decisions.jobs import run_of
from kcr.controllers.cronjob.decisions.plan import Announcement, Facts


def unlisted(cron: CronJob, jobs: Sequence[Job]) -> tuple[Job, ...]:
    """Return the Jobs that have not ended and are missing in the list, but for those that a user has started."""
    listed = {listed.uid for listed in cron.status.active}
    missing = (job for job in jobs if job.metadata.uid not in listed and not finished_type(job))
    return tuple(job for job in missing if not is_requested(job))


def absent(cron: CronJob, jobs: Sequence[Job]) -> tuple[ObjectReference, ...]:
    """Return the listed Jobs that the store lacks."""
    known = {job.metadata.uid for job in jobs}
    return tuple(listed for listed in cron.status.active if listed.uid not in known)


class Run(NamedTuple):
    """A run that was started.

    Attributes:
        due: The moment it was scheduled for.
        job: Its Job.
    """

    due: datetime
    job: Job


def is_unrecorded(status: CronJobStatus, due: datetime) -> bool:
    """Return whether a run is later than all on record."""
    return status.last_schedule_time is None or due > status.last_schedule_time


def forgotten(cron: CronJob, jobs: Sequence[Job], now: datetime) -> tuple[Run, ...]:
    """Return the runs that were started and are not on record, the earliest first.

    A controller that ends between creating a Job and writing the status leaves such a run behind. Its Job is ours
    beyond doubt: it belongs to this very CronJob, and its name and annotation are those of a run later than all on
    record. A run in the future, written by a process with a wrong clock, is left alone: with it on record nothing
    would be due until then. Unlike upstream, which warns of such a Job, does not wait for it under `Forbid`, does not
    replace it under `Replace`, and with a history limit of 0 may start its run once more.
    """
    listed = {listed.uid for listed in cron.status.active}
    found = (
        Run(due, job)
        for job in jobs
        if job.metadata.uid not in listed and is_controlled_by(job, cron) and (due := run_of(cron, job)) is not None
    )
    # Runs before the last on record were recorded themselves, and taken off the list when they had ended.
    missing = (run for run in found if run.due <= now and is_unrecorded(cron.status, run.due))
    return tuple(sorted(missing, key=lambda run: run.due))


def restored(status: CronJobStatus, runs: Sequence[Run]) -> CronJobStatus:
    """Return the status with these runs on record, the latest of them last.

    Their Jobs are listed even when they have ended: an event says so when they leave the list.
    """
    if not runs:
        return status
    known = {listed.uid for listed in status.active}
    # Idempotent: a run that is on record already is not listed twice.
    jobs = tuple(reference_to(run.job) for run in runs if run.job.metadata.uid not in known)
    return replace(status, active=status.active + jobs, last_schedule_time=runs[-1].due)


def drop_ended(seen: Facts) -> tuple[CronJobStatus, tuple[Announcement, ...]]:
    """Return the status without ended and missing Jobs, and the corresponding events.

    Source: kubernetes/pkg/controller/cronjob/cronjob_controllerv2.go, syncCronJob.
    """
    listed = {listed.uid for listed in seen.cron.status.active}
    ended = [job for job in seen.jobs if job.metadata.uid in listed and finished_type(job)]
    missing = [listed for listed in seen.cron.status.active if listed.uid in seen.missing]
    saw = "Saw a job that the controller did not create or forgot:"
    events = (
        *(Announcement("Warning", "UnexpectedJob", f"{saw} {job.metadata.name}") for job in seen.unexpected),
        *(_completed(job) for job in ended),
        *(Announcement("Normal", "MissingJob", f"Active job went missing: {lost.name}") for lost in missing),
    )
    # A Job is missing if the server itself does not have it: the store may only be late.
    status = without(seen.cron.status, {job.metadata.uid for job in ended} | seen.missing)
    return with_successes(status, seen.jobs), events


def without(status: CronJobStatus, uids: Set[str]) -> CronJobStatus:
    """Return the status without these Jobs in its list."""
    left = tuple(listed for listed in status.active if listed.uid not in uids)
    return status if len(left) == len(status.active) else replace(status, active=left)


def with_successes(status: CronJobStatus, jobs: Iterable[Job]) -> CronJobStatus:
    """Return the status with the completion of these Jobs in it, if one of them is the latest."""
    last = status.last_successful_time
    for job in jobs:
        completed = job.status.completion_time
        if completed is not None and is_succeeded(job) and (last is None or completed > last):
            last = completed
    return status if last == status.last_successful_time else replace(status, last_successful_time=last)


def _completed(job: Job) -> Announcement:
    message = f"Saw completed job: {job.metadata.name}, condition: {finished_type(job)}"
    return Announcement("Normal", "SawCompletedJob", message)
