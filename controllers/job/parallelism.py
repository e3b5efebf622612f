"""How many pods a Job should have (`spec.parallelism`), and which go first when there are too many."""

from collections.abc import Iterable

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.pods import ranked


def wanted(job: Job, active: int, succeeded: int) -> int:
    """Return how many pods should be active.

    With completions never more than are still missing. Without, the Job is a work queue: after the first
    success nothing is created and nothing trimmed.

    Source: kubernetes/pkg/controller/job/job_controller.go, manageJob.
    """
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is None:
        return active if succeeded else parallelism
    return max(0, min(parallelism, job.spec.completions - succeeded))


def surplus(active: Iterable[Pod], count: int) -> tuple[Pod, ...]:
    """Return the pods to remove: those that have got least far."""
    return tuple(ranked(active)[:count]) if count > 0 else ()
