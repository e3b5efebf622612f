"""When a Job has run too long (`spec.activeDeadlineSeconds`)."""

from datetime import datetime, timedelta

from kcr.api.batch import Job
from kcr.api.conditions import is_true
from kcr.controllers.job.conditions import SUSPENDED


def time_left(job: Job, now: datetime) -> timedelta | None:
    """Return how long the Job may still run, or None when no deadline counts down.

    The clock runs from `status.startTime` and only while the Job is not suspended. Resuming resets
    the start time, so a resumed Job gets its whole allowance again; upstream judges the Job that is about to be
    resumed by its old start time, if an older controller has left it one.

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
    start = now if is_true(job.status.conditions, SUSPENDED) else job.status.start_time
    return start + timedelta(seconds=limit) - now
