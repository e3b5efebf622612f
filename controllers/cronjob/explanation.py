"""Explains a CronJob with the controller's decision, on the API server's or the controller's data."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from kcr.api.batch import CronJob, Job
from kcr.api.core import Event
from kcr.api.explanation import Explanation
from kcr.api.meta import is_controlled_by
from kcr.client import Client
from kcr.controller import PendingObjects
from kcr.controllers.cronjob.decisions.explain import CronJobEvidence, explain
from kcr.controllers.cronjob.decisions.plan import Facts
from kcr.controllers.cronjob.decisions.status import absent, is_unrecorded, restored, unlisted, without
from kcr.controllers.cronjob.memory import CronJobState
from kcr.controllers.cronjob.wall_clock import zone_sources


async def explain_cronjob(client: Client, cron: CronJob, events: Sequence[Event], now: datetime) -> Explanation:
    """Return why a CronJob is where it is.

    A schedule without a time zone is in the controller's, which is assumed to be UTC.

    Args:
        client: Reads the Jobs of the CronJob.
        cron: The CronJob.
        events: Events about it, the latest last.
        now: The moment to judge at.
    """
    jobs = tuple(job for job in await client.list(Job, cron.metadata.namespace) if is_controlled_by(job, cron))
    return explain(facts_of(cron, jobs, UTC, now), CronJobEvidence(tuple(events), zones=zone_sources()))


def explain_own(
    cron: CronJob, jobs: Iterable[Job], state: CronJobState, own: PendingObjects, local: tzinfo, now: datetime
) -> Explanation:
    """Return why a CronJob is where it is, as its controller knows.

    Args:
        cron: The CronJob in the controller's store.
        jobs: The Jobs of its name there.
        state: The controller's memory of it.
        own: Its writes for the CronJob that it has not observed.
        local: The controller's time zone.
        now: The moment to judge at.
    """
    found = tuple(job for job in jobs if is_controlled_by(job, cron) and job.metadata.uid not in own.deleted)
    status = without(cron.status, own.deleted)
    no_answer = "had no answer: it is looked up before anything is decided"
    pending = [f"the create of Job {key.name} {no_answer}" for key in own.creates]
    started = state.started
    if started is not None and is_unrecorded(cron.status, started.due):
        if all(job.metadata.uid != started.job.metadata.uid for job in found):
            found += (started.job,)
        status = restored(status, (started,))
        pending.append(f"Job {started.job.metadata.name} is started, and not in the status yet")
    seen = facts_of(replace(cron, status=status), found, local, now)
    known = CronJobEvidence(zone=_zone_name(local), pending=tuple(pending), zones=zone_sources(), is_own=True)
    return explain(seen, known)


def facts_of(cron: CronJob, jobs: tuple[Job, ...], local: tzinfo, now: datetime) -> Facts:
    """Return the inputs of a reconcile; a listed Job that does not exist counts as missing.

    Args:
        cron: The CronJob.
        jobs: Its Jobs.
        local: The zone of schedules that name none.
        now: The moment to judge at.
    """
    missing = frozenset(listed.uid for listed in absent(cron, jobs))
    return Facts(cron=cron, jobs=jobs, unexpected=unlisted(cron, jobs), missing=missing, local=local, now=now)


def _zone_name(local: tzinfo) -> str:
    # That of a machine has no name.
    return (local.key or "") if isinstance(local, ZoneInfo) else str(local)
