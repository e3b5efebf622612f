"""The Jobs of a CronJob: how they are found, and what they have come to."""

from collections.abc import Iterable

from kcr.api.batch import CronJob, Job
from kcr.api.meta import controller_of

COMPLETE = "Complete"
FAILED = "Failed"

# Jobs by namespace and name of their controller. The name alone counts: the Jobs of an earlier CronJob of the same
# name are looked after as well, for nobody else will (cronjob-controller §4, Q2).
BY_CONTROLLER = "cronjob-controller-name"


def controller_names(job: Job) -> Iterable[str]:
    """Return under what a Job is found in the index `BY_CONTROLLER`.

    Source: kubernetes/pkg/controller/cronjob/cronjob_controllerv2.go, getJobsToBeReconciled.
    """
    owner = controller_of(job.metadata)
    return () if owner is None else (f"{job.metadata.namespace}/{owner.name}",)


def is_own(job: Job, cron: CronJob) -> bool:
    """Return whether this very CronJob made the Job, or has taken it for its own."""
    owner = controller_of(job.metadata)
    return owner is not None and owner.uid == cron.metadata.uid


def end_of(job: Job) -> str:
    """Return `Complete` or `Failed`, whichever condition comes first and holds; empty while the Job has not ended."""
    return next(
        (found.type for found in job.status.conditions if found.type in (COMPLETE, FAILED) and found.status == "True"),
        "",
    )


def has_succeeded(job: Job) -> bool:
    """Return whether the Job is complete, whatever other condition it has."""
    return any(found.type == COMPLETE and found.status == "True" for found in job.status.conditions)
