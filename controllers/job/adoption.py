"""Which pods are meant by a Job's selector (`spec.selector`): those it adopts, keeps or releases."""

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.selectors import matches
from kcr.errors import KcrError


def selects(job: Job, pod: Pod) -> bool:
    """Return whether the Job's selector fits a pod; ownership is another matter.

    Raises:
        KcrError: The selector is malformed. The server lets none in; an older one may have.

    Source: kubernetes/pkg/controller/job/job_controller.go, getPodsForJob.
    """
    if job.spec.selector is None or job.metadata.namespace != pod.metadata.namespace:
        return False
    try:
        return matches(job.spec.selector, pod.metadata.labels)
    except ValueError as error:
        raise KcrError(f"job {job.key}: couldn't convert Job selector: {error}") from error
