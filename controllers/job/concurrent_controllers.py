"""Another controller that writes the same Job: one started by mistake, or the last words of one that is being replaced.

Jobs and pods come over two watches. The one may show that another controller has counted a pod, while the other still
shows this pod as it was before: it would be counted once more, and might even be the failure too many.
"""

import structlog

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.selectors import text
from kcr.client import Client
from kcr.controllers.job.indexes import unsettled
from kcr.ratelimitedlog import RateLimitedLogger

# How long the warning is not repeated.
WARNING_SECONDS = 600.0

_log = structlog.get_logger()


def concurrent_log() -> RateLimitedLogger:
    """Return the logger of `warn`: one line in ten minutes."""
    return RateLimitedLogger(_log, WARNING_SECONDS)


def warn(log: RateLimitedLogger, job: Job, now: float) -> None:
    """Warn that another client writes the status of Jobs.

    Args:
        log: Where to; one for all Jobs.
        job: The Job whose status is another client's.
        now: The loop's time.
    """
    message = "another client writes the status of Jobs: two controllers of the same Jobs double the work; stop one"
    log.warning(now, message, job=str(job.key))


async def pods_now(client: Client, job: Job) -> tuple[Pod, ...]:
    """Return the Job's unsettled pods as the server has them, for when the store may not have caught up.

    Upstream has no such care, and relies on its lease.
    """
    labels = text(job.spec.selector) if job.spec.selector is not None else ""
    pods = await client.list(Pod, job.metadata.namespace, labels=labels)
    return tuple(pod for pod in pods if job.metadata.uid in unsettled(pod))
