"""Suspending and resuming a Job (`spec.suspend`)."""

from datetime import datetime

from msgspec.structs import replace

from kcr.api.batch import Job, JobStatus
from kcr.api.conditions import ensure, made
from kcr.api.meta import whole_seconds
from kcr.controllers.job.conditions import JOB_RESUMED, JOB_SUSPENDED, SUSPENDED


def reported(job: Job, status: JobStatus, now: datetime) -> JobStatus:
    """Return the status with the Suspended condition as the spec has it; the same status if it says so already.

    Suspension clears the start time, and with it the deadline; resuming sets it anew. A Job that was never
    suspended has no such condition.

    Source: kubernetes/pkg/controller/job/job_controller.go, syncJob (suspend bookkeeping).
    """
    if job.spec.suspend:
        condition = made(SUSPENDED, "True", JOB_SUSPENDED, "Job suspended", now)
        start = None
    else:
        condition = made(SUSPENDED, "False", JOB_RESUMED, "Job resumed", now)
        start = whole_seconds(now)
    conditions = ensure(status.conditions, condition)
    if conditions is status.conditions:
        return status
    return replace(status, conditions=conditions, start_time=start)
