"""The Job that a run starts: the template of the CronJob, and what the controller adds to it."""

from datetime import UTC, datetime, timedelta, tzinfo

import msgspec

from kcr.api import codec
from kcr.api.batch import CronJob, Job
from kcr.api.meta import Object, ObjectMeta, Resource, controller_reference

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

    Each run has one name, whoever starts it and however often: that is the lock against starting it twice.

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


def run_of(cron: CronJob, job: Job) -> datetime | None:
    """Return which run of the CronJob a Job is, or None when the controller did not make it."""
    try:
        run = datetime.fromisoformat(job.metadata.annotations.get(SCHEDULED_AT, ""))
    except ValueError:
        return None
    if run.tzinfo is None or job_name(cron, run) != job.metadata.name:
        return None
    return run.astimezone(UTC)


def _timestamp(moment: datetime) -> str:
    """Return a moment as RFC 3339 has it, in whole seconds."""
    text = moment.isoformat(timespec="seconds")
    return f"{text[:-6]}Z" if not moment.utcoffset() else text
