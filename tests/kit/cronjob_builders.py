"""CronJobs and Jobs as values: the base of the rows in cronjob-controller §19."""

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec
from msgspec.structs import replace

from kcr.api.batch import CronJob, CronJobSpec, CronJobStatus, Job, JobStatus
from kcr.api.core import reference_to
from kcr.api.meta import Condition
from kcr.controllers.cronjob.decisions.decide import decide
from kcr.controllers.cronjob.decisions.jobs import SCHEDULED_AT
from kcr.controllers.cronjob.decisions.plan import Facts, NoOp, Plan, Start
from kcr.controllers.cronjob.decisions.status import Run, restored
from kcr.testing import build
from tests.kit.cronjob_harness import CREATED

TEMPLATE = {"metadata": {"labels": {"a": "b"}, "annotations": {"x": "y"}}, "spec": {"template": {"spec": {}}}}


def cron(
    schedule: str = "*/1 * * * *",
    *,
    last: datetime | None = None,
    active: Iterable[Job] = (),
    succeeded: datetime | None = None,
    created: datetime = CREATED,
    deleted: datetime | None = None,
    **spec: object,
) -> CronJob:
    """The CronJob `default/hello`; fields of its spec by their names here."""
    base = CronJobSpec(
        schedule=schedule,
        concurrency_policy="Allow",
        suspend=False,
        job_template=msgspec.Raw(msgspec.json.encode(TEMPLATE)),
        successful_jobs_history_limit=3,
        failed_jobs_history_limit=1,
    )
    return CronJob(
        metadata=build.metadata(
            "hello", uid="cj-uid", resource_version="7", creation_timestamp=created, deletion_timestamp=deleted
        ),
        spec=replace(base, **spec),
        status=CronJobStatus(
            active=tuple(map(reference_to, active)), last_schedule_time=last, last_successful_time=succeeded
        ),
    )  # fmt: skip


def job(
    name: str = "hello-a",
    *,
    end: str = "",
    started: datetime | None = None,
    completed: datetime | None = None,
    run: datetime | None = None,
    owner: CronJob | None = None,
) -> Job:
    """A Job of `default/hello`; its uid is `u-` and its name. `end` is Complete, Failed, another condition or none."""
    return Job(
        metadata=build.metadata(
            name,
            owner=owner or cron(),
            uid=f"u-{name}",
            resource_version="9",
            annotations={} if run is None else {SCHEDULED_AT: run.astimezone(UTC).isoformat()},
        ),
        status=JobStatus(
            conditions=(Condition(type=end, status="True"),) if end else (),
            start_time=started,
            completion_time=completed,
        ),
    )


def judged(cron: CronJob, now: datetime, *jobs: Job, **facts: object) -> Plan:
    """What is decided when nothing is in doubt."""
    return decide(replace(Facts(cron=cron, jobs=jobs, local=UTC, now=now), **facts))


def delay(cron: CronJob, now: datetime, *jobs: Job) -> float | None:
    """After how many seconds the CronJob is looked at again, what is due once started; None for never."""
    plan = judged(cron, now, *jobs)
    if isinstance(plan.work, Start):
        made = Job(metadata=replace(plan.work.job.metadata, uid="u-made"))
        cron = replace(cron, status=restored(plan.status, [Run(plan.work.run, made)]))
        plan = judged(cron, now, *jobs, made)
    assert isinstance(plan.work, NoOp)
    wait = plan.work.requeue_after
    return None if wait is None else wait.total_seconds()


def reasons(plan: Plan) -> list[str]:
    """The reasons of the events that a plan announces."""
    return [told.reason for told in plan.announcements]


def started(plan: Plan) -> str:
    """The name of the Job that a plan starts; empty when it starts none."""
    return plan.work.job.metadata.name if isinstance(plan.work, Start) else ""


def listed(status: CronJobStatus) -> list[str]:
    """The names of the Jobs in the list."""
    return [reference.name for reference in status.active]
