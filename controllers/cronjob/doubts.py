"""Where the list of active Jobs and the Jobs in the store disagree.

Either may be behind the other. What is found here is only a suspicion: the server is asked before anybody acts on it.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace

from kcr.api.batch import CronJob, CronJobStatus, Job, finished_type
from kcr.api.core import ObjectReference, reference_to
from kcr.api.meta import is_controlled_by
from kcr.controllers.cronjob.job_template import run_of


def unlisted(cron: CronJob, jobs: Sequence[Job]) -> tuple[Job, ...]:
    """Return the Jobs that have not ended and are missing in the list."""
    listed = {listed.uid for listed in cron.status.active}
    return tuple(job for job in jobs if job.metadata.uid not in listed and not finished_type(job))


def absent(cron: CronJob, jobs: Sequence[Job]) -> tuple[ObjectReference, ...]:
    """Return what is listed without a Job in the store."""
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
    record. One still to come, by somebody's wrong clock, is left alone: with it on record nothing would be due until
    then. Unlike upstream, which warns of such a Job, does not wait for it under `Forbid`, does not replace it under
    `Replace`, and with a history limit of 0 may start its run once more.
    """
    listed = {listed.uid for listed in cron.status.active}
    found = (
        Run(due, job)
        for job in jobs
        if job.metadata.uid not in listed and is_controlled_by(job, cron) and (due := run_of(cron, job)) is not None
    )
    missing = (run for run in found if run.due <= now and is_unrecorded(cron.status, run.due))
    return tuple(sorted(missing, key=lambda run: run.due))


def recalled(status: CronJobStatus, runs: Sequence[Run]) -> CronJobStatus:
    """Return the status with these runs on record, the latest of them last.

    Their Jobs are listed even when they have ended: that is told when they leave the list.
    """
    if not runs:
        return status
    known = {listed.uid for listed in status.active}
    jobs = tuple(reference_to(run.job) for run in runs if run.job.metadata.uid not in known)
    return replace(status, active=status.active + jobs, last_schedule_time=runs[-1].due)
