"""Jobs and CronJobs, as far as a controller reads them. Templates are carried as bytes, whole."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from kcr.api.core import ObjectReference
from kcr.api.meta import Condition, FullResource, Object
from kcr.api.selectors import LabelSelector

# The conditions with which a Job is finished.
COMPLETE = "Complete"
FAILED = "Failed"
_ENDS = (COMPLETE, FAILED)
# The index of a pod of an Indexed Job: annotation and label both.
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
# Marks of Jobs that a user has started: with `kcr run-now` of a CronJob, with `kcr rerun` of the Job named.
RUN_NOW = "kcr.dev/run-now"
RERUN_OF = "kcr.dev/rerun-of"


class UncountedTerminatedPods(Object):
    """UIDs of pods that have ended and are not yet in the counters."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class OnExitCodes(Object):
    """Matches a pod one of whose containers ended with one of these codes (`In`), or with another one (`NotIn`)."""

    container_name: str | None = None
    operator: str = ""
    values: tuple[int, ...] = ()


class PodConditionPattern(Object):
    """Matches a pod that has a condition of this type with this status."""

    type: str = ""
    status: str = ""


class PodFailurePolicyRule(Object):
    """The action for matching failures: `FailJob`, `FailIndex`, `Ignore` or `Count`."""

    action: str = ""
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: tuple[PodConditionPattern, ...] = ()


class PodFailurePolicy(Object):
    """Which failures end a Job, and which do not count. The first rule that matches decides."""

    rules: tuple[PodFailurePolicyRule, ...] = ()


class SuccessPolicyRule(Object):
    """Is met when so many of these indexes have succeeded: all of those named, or so many of any."""

    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(Object):
    """When an Indexed Job has succeeded although not all of its indexes have. One rule is enough."""

    rules: tuple[SuccessPolicyRule, ...] = ()


class JobGangPolicy(Object):
    """None of the Job's pods is scheduled before so many can be; None for as many as run side by side."""

    min_count: int | None = None


class JobSchedulingPolicy(Object):
    """How the pods of a Job are scheduled: exactly one is set."""

    basic: Mapping[str, Any] | None = None
    gang: JobGangPolicy | None = None


class JobSchedulingConfiguration(Object):
    """How the pods of a Job are scheduled together. The fields beside the policy are carried to its Workload."""

    scheduling_policy: JobSchedulingPolicy | None = None
    scheduling_constraints: Mapping[str, Any] | None = None
    disruption_mode: Mapping[str, Any] | None = None
    resource_claims: tuple[Mapping[str, Any], ...] = ()


class JobSpec(Object):
    """The specification of a Job. None means unset; the server sets its defaults."""

    parallelism: int | None = None
    completions: int | None = None
    active_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    selector: LabelSelector | None = None
    manual_selector: bool | None = None
    template: msgspec.Raw = msgspec.Raw(b"{}")
    ttl_seconds_after_finished: int | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    pod_replacement_policy: str | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    managed_by: str | None = None
    scheduling: JobSchedulingConfiguration | None = None


class JobStatus(Object):
    """How far a Job is. `ready` and `terminating` are None until a controller has looked.

    `completed_indexes` and `failed_indexes` are sets of completion indexes as text, such as `1,3-5,7`; the latter is
    None unless the Job has a limit per index.
    """

    conditions: tuple[Condition, ...] = ()
    start_time: datetime | None = None
    completion_time: datetime | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    ready: int | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None


class Job(FullResource, api_version="batch/v1", plural="jobs"):
    """Runs pods until enough of them have succeeded."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    def detached(self) -> Self:
        """Return the Job with a template of its own, so that the page it came in can be freed (ST-7)."""
        return replace(self, spec=replace(self.spec, template=self.spec.template.copy()))


def is_indexed(job: Job) -> bool:
    """Return whether each of the Job's pods has an index, and each index has to succeed once."""
    return job.spec.completion_mode == "Indexed"


def is_finished(job: Job) -> bool:
    """Return whether the Job has ended, one way or the other; nothing changes it any more."""
    return bool(finished_type(job))


def finished_type(job: Job) -> str:
    """Return `Complete` or `Failed`, whichever condition comes first and holds; empty while the Job is not finished.

    Source: kubernetes/pkg/controller/job/utils.go, IsJobFinished; cronjob/utils.go, getFinishedStatus.
    """
    ends = (found.type for found in job.status.conditions if found.type in _ENDS and found.status == "True")
    return next(ends, "")


def is_succeeded(job: Job) -> bool:
    """Return whether the Job is complete, whatever other condition it has."""
    return any(found.type == COMPLETE and found.status == "True" for found in job.status.conditions)


def is_requested(job: Job) -> bool:
    """Return whether a user has started the Job with `kcr run-now` or `kcr rerun`: it is no run of a schedule."""
    return not job.metadata.annotations.keys().isdisjoint((RUN_NOW, RERUN_OF))


class CronJobSpec(Object):
    """When to start Jobs, and which. None means unset; the server fills in its defaults."""

    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str | None = None
    suspend: bool | None = None
    job_template: msgspec.Raw = msgspec.Raw(b"{}")
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None


class CronJobStatus(Object):
    """The running Jobs and the last runs. The times are None before the first run."""

    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: datetime | None = None
    last_successful_time: datetime | None = None


class CronJob(FullResource, api_version="batch/v1", plural="cronjobs"):
    """Starts Jobs at times that a schedule names."""

    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()

    def detached(self) -> Self:
        """Return the CronJob with a template of its own, so that the page it came in can be freed (ST-7)."""
        return replace(self, spec=replace(self.spec, job_template=self.spec.job_template.copy()))
