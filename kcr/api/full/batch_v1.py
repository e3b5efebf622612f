# Made by `python -m tools.api_types`: do not edit.
"""Types of batch/v1, whole."""

from datetime import datetime
from typing import Self

from kcr.api.full.core_v1 import ObjectReference, PodTemplateSpec
from kcr.api.full.scheduling_v1alpha3 import (
    WorkloadPodGroupDisruptionMode,
    WorkloadPodGroupResourceClaim,
    WorkloadPodGroupSchedulingConstraints,
    WorkloadPodGroupSchedulingPolicy,
)
from kcr.api.meta import FullResource, Object, ObjectMeta, copy_raw
from kcr.api.selectors import LabelSelector


class JobSchedulingConfiguration(Object):
    disruption_mode: WorkloadPodGroupDisruptionMode | None = None
    resource_claims: tuple[WorkloadPodGroupResourceClaim, ...] = ()
    scheduling_constraints: WorkloadPodGroupSchedulingConstraints | None = None
    scheduling_policy: WorkloadPodGroupSchedulingPolicy | None = None


class PodFailurePolicyOnExitCodesRequirement(Object):
    container_name: str | None = None
    operator: str
    values: tuple[int, ...]


class PodFailurePolicyOnPodConditionsPattern(Object):
    status: str | None = None
    type: str


class PodFailurePolicyRule(Object):
    action: str
    on_exit_codes: PodFailurePolicyOnExitCodesRequirement | None = None
    on_pod_conditions: tuple[PodFailurePolicyOnPodConditionsPattern, ...] = ()


class PodFailurePolicy(Object):
    rules: tuple[PodFailurePolicyRule, ...]


class SuccessPolicyRule(Object):
    succeeded_count: int | None = None
    succeeded_indexes: str | None = None


class SuccessPolicy(Object):
    rules: tuple[SuccessPolicyRule, ...]


class JobSpec(Object):
    active_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    completion_mode: str | None = None
    completions: int | None = None
    managed_by: str | None = None
    manual_selector: bool | None = None
    max_failed_indexes: int | None = None
    parallelism: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    pod_replacement_policy: str | None = None
    scheduling: JobSchedulingConfiguration | None = None
    selector: LabelSelector | None = None
    success_policy: SuccessPolicy | None = None
    suspend: bool | None = None
    template: PodTemplateSpec
    ttl_seconds_after_finished: int | None = None


class JobTemplateSpec(Object):
    metadata: ObjectMeta | None = None
    spec: JobSpec | None = None


class CronJobSpec(Object):
    concurrency_policy: str | None = None
    failed_jobs_history_limit: int | None = None
    job_template: JobTemplateSpec
    schedule: str
    starting_deadline_seconds: int | None = None
    successful_jobs_history_limit: int | None = None
    suspend: bool | None = None
    time_zone: str | None = None


class CronJobStatus(Object):
    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: datetime | None = None
    last_successful_time: datetime | None = None


class CronJob(FullResource, api_version="batch/v1", plural="cronjobs"):
    spec: CronJobSpec
    status: CronJobStatus = CronJobStatus()

    def detached(self) -> Self:
        """Return the object free of the bytes it was decoded from."""
        return copy_raw(self)


class JobCondition(Object):
    last_probe_time: datetime | None = None
    last_transition_time: datetime | None = None
    message: str | None = None
    reason: str | None = None
    status: str
    type: str


class UncountedTerminatedPods(Object):
    failed: tuple[str, ...] = ()
    succeeded: tuple[str, ...] = ()


class JobStatus(Object):
    active: int | None = None
    completed_indexes: str | None = None
    completion_time: datetime | None = None
    conditions: tuple[JobCondition, ...] = ()
    failed: int | None = None
    failed_indexes: str | None = None
    ready: int | None = None
    start_time: datetime | None = None
    succeeded: int | None = None
    terminating: int | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None


class Job(FullResource, api_version="batch/v1", plural="jobs"):
    spec: JobSpec
    status: JobStatus = JobStatus()

    def detached(self) -> Self:
        """Return the object free of the bytes it was decoded from."""
        return copy_raw(self)
