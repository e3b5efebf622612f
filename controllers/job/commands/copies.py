"""Manifests of Jobs that run the work of a CronJob or of an ended Job once more; nothing is requested here.

A copy has the labels, annotations and CronJob of a scheduled Job. It lacks the annotation of a scheduled run, so that
no CronJob controller records it in `status.lastScheduleTime`.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from kcr.api.batch import RERUN_OF, RUN_NOW, CronJob, Job, JobStatus
from kcr.api.indexset import IndexSet
from kcr.api.meta import OwnerReference, controller_of
from kcr.api.unstructured import Unstructured, unstructured

# A Job with all fields of its spec, also those that are newer than kcr.
WholeJob: type[Unstructured] = unstructured("batch/v1", "Job", plural="jobs")

# Source: kubectl/pkg/cmd/create/create_job.go, createJobFromCronJob.
INSTANTIATE = "cronjob.kubernetes.io/instantiate"
RERUN_INDEXES = "kcr.dev/rerun-indexes"

# Facts about the original that do not hold for the copy.
_OWN_ANNOTATIONS = (
    "batch.kubernetes.io/cronjob-scheduled-timestamp", "batch.kubernetes.io/job-tracking",
    "kubectl.kubernetes.io/last-applied-configuration", RUN_NOW, RERUN_OF, RERUN_INDEXES,
    "kcr.dev/traceparent",
)  # fmt: skip
# The server generates them from the uid and name of a Job.
_OWN_LABELS = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")
# The longest name of a Job: its pods carry it in a label.
_LONGEST = 63
_EPOCH = datetime(1970, 1, 1)
_MINUTE = timedelta(minutes=1)


def run_name(cron: CronJob, now: datetime) -> str:
    """Return the name of the Job of a CronJob that is started now.

    It ends in `-m` and the minute, so no second Job is started in the same minute, and no scheduled run has the name:
    those end in `-` and the minute.

    Args:
        cron: The CronJob.
        now: The present, timezone-aware UTC.
    """
    return f"{cron.metadata.name}-m{(now.replace(tzinfo=None) - _EPOCH) // _MINUTE}"


def run_of(cron: CronJob, name: str) -> dict[str, Any]:
    """Return the Job that a CronJob would start, under this name.

    Source: kubectl/pkg/cmd/create/create_job.go, createJobFromCronJob.
    """
    template = msgspec.json.decode(cron.spec.job_template)
    metadata = template.get("metadata") or {}
    found = {
        "name": name,
        "namespace": cron.metadata.namespace,
        "labels": metadata.get("labels") or {},
        "annotations": {**(metadata.get("annotations") or {}), INSTANTIATE: "manual", RUN_NOW: "true"},
        "ownerReferences": [_reference(cron.resource.api_version, cron.metadata.name, cron.metadata.uid)],
    }
    return _manifest(found, template.get("spec") or {})


def rerun_name(job: Unstructured) -> str:
    """Return the name of the copy of a Job: `pi-rerun-1` for `pi`, `pi-rerun-2` for that one.

    Each Job has one such name, so the copy of a command without an answer is found, and is not made twice.
    """
    name, number = job.metadata.name, 1
    base, separator, last = name.rpartition("-rerun-")
    if separator and last.isdecimal() and RERUN_OF in job.metadata.annotations:
        name, number = base, int(last) + 1
    suffix = f"-rerun-{number}"
    return name[: _LONGEST - len(suffix)].rstrip("-.") + suffix


def rerun_of(job: Unstructured, name: str, indexes: IndexSet | None = None) -> dict[str, Any]:
    """Return a Job with the spec, labels and annotations of another one, and its CronJob as owner.

    Owners of other kinds are left out: their controllers would count the copy as a Job of their own.

    Args:
        job: The original, whole.
        name: The name of the copy.
        indexes: The indexes to run; None for all. With indexes the copy is suspended, until its status lists the
            completed ones.
    """
    owner = owner_of(job)
    annotations = {**_without(job.metadata.annotations, _OWN_ANNOTATIONS), RERUN_OF: job.metadata.name}
    annotations |= {INSTANTIATE: "manual"} if owner is not None else {}
    annotations |= {} if indexes is None else {RERUN_INDEXES: share_text(job, indexes)}
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": job.metadata.namespace,
        "labels": _without(job.metadata.labels, _OWN_LABELS),
        "annotations": annotations,
    }
    if owner is not None:
        metadata["ownerReferences"] = [_reference(owner.api_version, owner.name, owner.uid)]
    spec = _without(job.get("spec"), ("selector", "suspend", "manualSelector"))
    template = spec.get("template") or {}
    labels = _without((template.get("metadata") or {}).get("labels") or {}, _OWN_LABELS)
    spec["template"] = {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}}
    return _manifest(metadata, {**spec, "suspend": True} if indexes is not None else spec)


def left_indexes(job: Unstructured) -> IndexSet:
    """Return the indexes of an Indexed Job that have not succeeded: those that failed, and those that never ran."""
    return IndexSet.of(completed_indexes(job).gaps(_completions(job)))


def share_text(job: Unstructured, indexes: IndexSet) -> str:
    """Return how many indexes of a Job these are: `2 of 10`. All of their numbers might not fit into an annotation."""
    return f"{len(indexes)} of {_completions(job)}"


def completed_indexes(job: Unstructured) -> IndexSet:
    """Return the indexes of an Indexed Job that have succeeded."""
    return IndexSet.parse(status_of(job).completed_indexes, _completions(job))


def status_of(job: Unstructured) -> JobStatus:
    """Return the status of a Job."""
    return job.get("status", JobStatus) or JobStatus()


def _completions(job: Unstructured) -> int:
    return (job.get("spec") or {}).get("completions") or 0


def owner_of(job: Unstructured) -> OwnerReference | None:
    """Return the CronJob that controls a Job; None for another owner or none."""
    owner = controller_of(job.metadata)
    return owner if owner is not None and owner.kind == CronJob.resource.kind else None


def _reference(api_version: str, name: str, uid: str) -> dict[str, object]:
    # Without blockOwnerDeletion, as of kubectl: it needs a right to the CronJob's finalizers.
    return {"apiVersion": api_version, "kind": CronJob.resource.kind, "name": name, "uid": uid, "controller": True}


def _manifest(metadata: Mapping[str, object], spec: Mapping[str, object]) -> dict[str, Any]:
    return {"apiVersion": Job.resource.api_version, "kind": Job.resource.kind, "metadata": metadata, "spec": spec}


def _without(found: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in names}
