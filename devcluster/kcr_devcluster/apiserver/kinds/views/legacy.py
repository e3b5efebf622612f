"""Old versions of the batch kinds, for old manifests only: views of the objects that batch/v1 serves.

`extensions/v1beta1` Jobs had `autoSelector` where batch/v1 has `manualSelector`. The flags say opposite things and
are both false when they are missing, and both are left out rather than written as false: so a client that never set
its flag never sees it. `batch/v1beta1` CronJobs differ in nothing.

Source: kubernetes/pkg/apis/extensions/v1beta1/conversion.go and defaults.go, as of v1.5; batch-api §11.
"""

from collections.abc import Mapping
from dataclasses import replace

from kcr_devcluster.apiserver.kinds.catalogue import CRON_JOBS, JOBS
from kcr_devcluster.apiserver.kinds.kind import Conversion, Kind
from kcr_devcluster.apiserver.kinds.strategy import conform
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.schema.builtin import type_shape
from kcr_devcluster.apiserver.schema.shape import Field, Shape
from kcr_devcluster.versions import VERSIONS

_GROUP, _VERSION = "extensions", "v1beta1"
# The old versions have no field that came after them.
_FIELDS_OF = VERSIONS[0]


def job_to_hub(job: Manifest) -> None:
    """Turn a Job of extensions/v1beta1 into one of batch/v1.

    Where the selector is manual and absent, it is made of all labels of the template.

    Raises:
        UndecodableError: It is no Job.
    """
    conform(_OLD_JOB, job)
    job["apiVersion"] = JOBS.type.api_version
    spec: Manifest = job.setdefault("spec", {})
    if spec.pop("autoSelector", None):
        return
    spec["manualSelector"] = True
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels and "selector" not in spec:
        spec["selector"] = {"matchLabels": dict(labels)}


def job_from_hub(job: Manifest) -> None:
    """Turn a Job of batch/v1 into one of extensions/v1beta1."""
    job["apiVersion"] = f"{_GROUP}/{_VERSION}"
    spec: Manifest = job["spec"]
    if not spec.pop("manualSelector", None):
        spec["autoSelector"] = True


def cron_job_to_hub(cron_job: Manifest) -> None:
    """Turn a CronJob of batch/v1beta1 into one of batch/v1: nothing else differs.

    Raises:
        UndecodableError: It is no CronJob.
    """
    conform(_OLD_CRON_JOB, cron_job)
    cron_job["apiVersion"] = CRON_JOBS.type.api_version


def cron_job_from_hub(cron_job: Manifest) -> None:
    """Turn a CronJob of batch/v1 into one of batch/v1beta1."""
    cron_job["apiVersion"] = f"{CRON_JOBS.type.group}/{_VERSION}"


def _old_job() -> Mapping[str, Field]:
    new = JOBS.shape_in(_FIELDS_OF).fields
    return {**new, "spec": new["spec"]._replace(type=Shape("v1.JobSpec", _old_spec).type)}


def _old_spec() -> Mapping[str, Field]:
    fields = dict(type_shape("batch.v1.JobSpec", _FIELDS_OF).fields)
    fields["autoSelector"] = fields.pop("manualSelector")
    return fields


_OLD_JOB = Shape(f"{_VERSION}.Job", _old_job)
_OLD_CRON_JOB = Shape(f"{_VERSION}.CronJob", lambda: CRON_JOBS.shape_in(_FIELDS_OF).fields)


def _older(group: str, conversion: Conversion) -> Kind:
    # Without short names and categories, `kubectl get jobs` and `all` mean the current version.
    old = conversion.hub.type._replace(group=group, version=_VERSION)
    return replace(conversion.hub, type=old, short_names=(), categories=(), conversion=conversion)


_JOB_WARNING = "extensions/v1beta1 Job is served for old manifests only; use batch/v1 Job"
_CRON_JOB_WARNING = "batch/v1beta1 CronJob is deprecated in v1.21+, unavailable in v1.25+; use batch/v1 CronJob"

LEGACY_KINDS: tuple[Kind, ...] = (
    _older(_GROUP, Conversion(JOBS, _OLD_JOB, job_to_hub, job_from_hub, _JOB_WARNING)),
    _older("batch", Conversion(CRON_JOBS, _OLD_CRON_JOB, cron_job_to_hub, cron_job_from_hub, _CRON_JOB_WARNING)),
)
