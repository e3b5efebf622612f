"""Which ended Jobs are kept (`spec.successfulJobsHistoryLimit`, `spec.failedJobsHistoryLimit`)."""

from collections.abc import Sequence
from datetime import UTC, datetime

from kcr.api.batch import COMPLETE, FAILED, CronJob, Job, finished_type

_NEVER = datetime.max.replace(tzinfo=UTC)


def surplus(cron: CronJob, jobs: Sequence[Job]) -> tuple[Job, ...]:
    """Return the Jobs to delete, in the order in which they go: successful ones first, each kind oldest first.

    A Job is as old as its `status.startTime`; one that never started counts as the newest. A limit of None keeps
    all, of 0 none.

    Args:
        cron: The CronJob.
        jobs: All its Jobs; those that have not ended are passed over.

    Source: kubernetes/pkg/controller/cronjob/cronjob_controllerv2.go, cleanupFinishedJobs.
    """
    limits = (
        (COMPLETE, cron.spec.successful_jobs_history_limit),
        (FAILED, cron.spec.failed_jobs_history_limit),
    )
    return tuple(
        job
        for end, limit in limits
        if limit is not None
        for job in _oldest([job for job in jobs if finished_type(job) == end], limit)
    )


def _oldest(jobs: list[Job], limit: int) -> list[Job]:
    """Return what exceeds the limit."""
    excess = len(jobs) - limit
    return sorted(jobs, key=_age)[:excess] if excess > 0 else []


def _age(job: Job) -> tuple[datetime, bytes]:
    return job.status.start_time or _NEVER, job.metadata.name.encode()
