"""The Jobs of a CronJob: made from its template, found in the store, and kept as the history limits say."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo

import msgspec

from kcr.api import codec
from kcr.api.batch import COMPLETE, FAILED, CronJob, Job, finished_type
from kcr.api.meta import Object, ObjectMeta, Resource, controller_of, controller_reference

SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class JobToCreate(Resource, api_version="batch/v1", kind="Job", plural="jobs"):
    """A Job whose spec is carried as it stands in the template."""

    spec: msgspec.Raw


class _Template(Object):
    metadata: ObjectMeta = ObjectMeta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")


def job_name(cron: CronJob, run: datetime) -> str:
    """Return the name of the Job of a run: the CronJob's, and the run's minute since 1970.

    Each run has one name, for all controllers and all tries: that is the lock against starting it twice.

    Source: kubernetes/pkg/controller/cronjob/utils.go, getJobName.
    """
    return f"{cron.metadata.name}-{(run - _EPOCH) // timedelta(minutes=1)}"


def job_of(cron: CronJob, run: datetime, zone: tzinfo | None) -> JobToCreate:
    """Return the Job of a run.

    Of the template's metadata only labels and annotations are kept.

    Args:
        cron: The CronJob.
        run: The moment the run was scheduled for.
        zone: The zone of `spec.timeZone`, in which the annotation gives that moment; None for UTC.

    Source: kubernetes/pkg/controller/cronjob/utils.go, getJobFromTemplate2.
    """
    template = codec.decode(_Template, bytes(cron.spec.job_template))
    metadata = ObjectMeta(
        name=job_name(cron, run),
        namespace=cron.metadata.namespace,
        # The server puts the present in its place.
        creation_timestamp=run,
        labels=template.metadata.labels,
        annotations={**template.metadata.annotations, SCHEDULED_AT: _timestamp(run.astimezone(zone or UTC))},
        owner_references=(controller_reference(cron),),
    )
    return JobToCreate(metadata=metadata, spec=template.spec.copy())


def run_of(cron: CronJob, job: Resource) -> datetime | None:
    """Return which run of the CronJob a Job is, or None when the controller did not make it."""
    try:
        run = datetime.fromisoformat(job.metadata.annotations.get(SCHEDULED_AT, ""))
    except ValueError:
        return None
    if run.tzinfo is None or job_name(cron, run) != job.metadata.name:
        return None
    return run.astimezone(UTC)


def _timestamp(moment: datetime) -> str:
    text = moment.isoformat(timespec="seconds")
    return f"{text[:-6]}Z" if not moment.utcoffset() else text


# Jobs by namespace and name of their controller. The name alone counts: the Jobs of an earlier CronJob of the same
# name are managed as well, for no other controller does so (cronjob-controller §4, Q2).
BY_CONTROLLER = "cronjob-controller-name"


def controller_names(job: Job) -> Iterable[str]:
    """Return a Job's values in the index `BY_CONTROLLER`.

    Source: kubernetes/pkg/controller/cronjob/cronjob_controllerv2.go, getJobsToBeReconciled.
    """
    owner = controller_of(job.metadata)
    return () if owner is None else (f"{job.metadata.namespace}/{owner.name}",)


_NEVER = datetime.max.replace(tzinfo=UTC)


def surplus(cron: CronJob, jobs: Sequence[Job]) -> tuple[Job, ...]:
    """Return the Jobs to delete, in the order in which they go: successful ones first, each kind oldest first.

    A Job is as old as its `status.startTime`; one that never started counts as the newest. A limit of None keeps
    all, of 0 none.

    Args:
        cron: The CronJob.
        jobs: All its Jobs; those that have not ended are passed over.

    Source: kubernetes/pkg/controller/cronjob/cronjob_controllerv2.go, cleanupFinishedJobs.
    """
    limits = (
        (COMPLETE, cron.spec.successful_jobs_history_limit),
        (FAILED, cron.spec.failed_jobs_history_limit),
    )
    found: list[Job] = []
    for end, limit in limits:
        ended = sorted((job for job in jobs if finished_type(job) == end), key=_age)
        found += ended[: max(0, len(ended) - limit)] if limit is not None else ()
    return tuple(found)


def _age(job: Job) -> tuple[datetime, bytes]:
    return job.status.start_time or _NEVER, job.metadata.name.encode()
