"""The Jobs of a CronJob: how they are found, and what they have come to."""

from collections.abc import Iterable

from kcr.api.batch import Job
from kcr.api.meta import controller_of

# Jobs by namespace and name of their controller. The name alone counts: the Jobs of an earlier CronJob of the same
# name are looked after as well, for nobody else will (cronjob-controller §4, Q2).
BY_CONTROLLER = "cronjob-controller-name"


def controller_names(job: Job) -> Iterable[str]:
    """Return under what a Job is found in the index `BY_CONTROLLER`.

    Source: kubernetes/pkg/controller/cronjob/cronjob_controllerv2.go, getJobsToBeReconciled.
    """
    owner = controller_of(job.metadata)
    return () if owner is None else (f"{job.metadata.namespace}/{owner.name}",)
