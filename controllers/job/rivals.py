"""Another controller that writes the same Job: one started by mistake, or the last words of one that is being replaced.

Jobs and pods come over two watches. The one may show that another controller has counted a pod, while the other still
shows this pod as it was before: it would be counted once more, and might even be the failure too many.
"""

from controllers.job.indexes import unsettled
from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.selectors import text
from kcr.client import Client


async def pods_now(client: Client, job: Job) -> tuple[Pod, ...]:
    """Return the Job's unsettled pods as the server has them, for when the store may not have caught up.

    Upstream has no such care, and relies on its lease.
    """
    labels = text(job.spec.selector) if job.spec.selector is not None else ""
    pods = await client.list(Pod, job.metadata.namespace, labels=labels)
    return tuple(pod for pod in pods if job.metadata.uid in unsettled(pod))
