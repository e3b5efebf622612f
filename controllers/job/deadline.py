"""When a Job has run too long (`spec.activeDeadlineSeconds`)."""

from datetime import datetime, timedelta

from kcr.api.batch import Job


def time_left(job: Job, now: datetime) -> timedelta | None:
    """Return how long the Job may still run, or None when no deadline counts down.

    The clock runs from `status.startTime` and only while the Job is not suspended. Resuming resets
    the start time, so a resumed Job gets its whole allowance again.

    Args:
        job: The Job as last observed.
        now: The moment to judge at, timezone-aware UTC.

    Returns:
        Zero or less means the deadline has passed.

    Source: kubernetes/pkg/controller/job/job_controller.go, pastActiveDeadline.
    """
    limit = job.spec.active_deadline_seconds
    if limit is None or job.status.start_time is None or job.spec.suspend:
        return None
    return job.status.start_time + timedelta(seconds=limit) - now
