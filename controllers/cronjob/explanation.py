"""Explains a CronJob from outside: from what the API server knows of it, with the controller's own decision."""

from datetime import UTC, datetime

from kcr.api.batch import CronJob, Job
from kcr.api.explanation import Explanation
from kcr.api.meta import Key, is_controlled_by
from kcr.client import Client
from kcr.controllers.cronjob.decisions.explain import explain
from kcr.controllers.cronjob.decisions.plan import Facts
from kcr.controllers.cronjob.decisions.status import absent, unlisted


async def explain_cronjob(client: Client, key: Key, now: datetime) -> tuple[CronJob, Explanation]:
    """Return a CronJob, and why it is where it is.

    A schedule that names no time zone goes by the controller's, which is taken for UTC.

    Args:
        client: Reads the CronJob and its Jobs.
        key: The CronJob.
        now: The moment to judge at.

    Raises:
        NotFoundError: There is no such CronJob.
    """
    cron = await client.get(CronJob, key)
    jobs = tuple(job for job in await client.list(Job, key.namespace) if is_controlled_by(job, cron))
    missing = frozenset(listed.uid for listed in absent(cron, jobs))
    seen = Facts(cron=cron, jobs=jobs, unexpected=unlisted(cron, jobs), missing=missing, local=UTC, now=now)
    return cron, explain(seen)
