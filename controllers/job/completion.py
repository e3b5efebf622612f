"""When a Job has done its work (`spec.completions`)."""

from kcr.api.batch import Job


def is_complete(job: Job, succeeded: int, active: int) -> bool:
    """Return whether enough pods have succeeded and none is active.

    Without completions the Job is a work queue: the first success says that the work is done, and the pods
    that are left may end as they like.

    Source: kubernetes/pkg/controller/job/job_controller.go, syncJob (completion check).
    """
    if active:
        return False
    wanted = job.spec.completions
    return succeeded > 0 if wanted is None else succeeded >= wanted
