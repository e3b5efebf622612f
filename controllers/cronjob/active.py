"""The list of active Jobs, and when one last succeeded: how they follow what the Jobs come to."""

from collections.abc import Iterable, Set

from msgspec.structs import replace

from kcr.api.batch import CronJobStatus, Job, finished_type, is_succeeded
from kcr.controllers.cronjob.plan import Announcement, Facts


def followed_up(seen: Facts) -> tuple[CronJobStatus, tuple[Announcement, ...]]:
    """Return the status with ended and missing Jobs off the list, and the events that tell of it.

    Source: kubernetes/pkg/controller/cronjob/cronjob_controllerv2.go, syncCronJob.
    """
    listed = {listed.uid for listed in seen.cron.status.active}
    ended = [job for job in seen.jobs if job.metadata.uid in listed and finished_type(job)]
    missing = [listed for listed in seen.cron.status.active if listed.uid in seen.missing]
    told = (
        *(_unexpected(job) for job in seen.unexpected),
        *(_completed(job) for job in ended),
        *(Announcement("Normal", "MissingJob", f"Active job went missing: {lost.name}") for lost in missing),
    )
    status = without(seen.cron.status, {job.metadata.uid for job in ended} | seen.missing)
    return with_successes(status, seen.jobs), told


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


def _unexpected(job: Job) -> Announcement:
    message = f"Saw a job that the controller did not create or forgot: {job.metadata.name}"
    return Announcement("Warning", "UnexpectedJob", message)


def _completed(job: Job) -> Announcement:
    message = f"Saw completed job: {job.metadata.name}, condition: {finished_type(job)}"
    return Announcement("Normal", "SawCompletedJob", message)
