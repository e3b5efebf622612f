# Made by `python -m tools.api_types`: do not edit.
"""Types of apps/v1, whole."""

from datetime import datetime

from kcr.api.full.core_v1 import EmbeddedPersistentVolumeClaim, PodTemplateSpec
from kcr.api.markers import IntOrString
from kcr.api.meta import FullResource, Object
from kcr.api.selectors import LabelSelector


class RollingUpdateDaemonSet(Object):
    max_surge: IntOrString | None = None
    max_unavailable: IntOrString | None = None


class DaemonSetUpdateStrategy(Object):
    rolling_update: RollingUpdateDaemonSet | None = None
    type: str | None = None


class DaemonSetSpec(Object):
    min_ready_seconds: int | None = None
    revision_history_limit: int | None = None
    selector: LabelSelector
    template: PodTemplateSpec
    update_strategy: DaemonSetUpdateStrategy | None = None


class DaemonSetCondition(Object):
    last_transition_time: datetime | None = None
    message: str | None = None
    reason: str | None = None
    status: str
    type: str


class DaemonSetStatus(Object):
    collision_count: int | None = None
    conditions: tuple[DaemonSetCondition, ...] = ()
    current_number_scheduled: int
    desired_number_scheduled: int
    number_available: int | None = None
    number_misscheduled: int
    number_ready: int
    number_unavailable: int | None = None
    observed_generation: int | None = None
    updated_number_scheduled: int | None = None


class DaemonSet(FullResource, api_version="apps/v1", plural="daemonsets"):
    spec: DaemonSetSpec
    status: DaemonSetStatus | None = None


class RollingUpdateDeployment(Object):
    max_surge: IntOrString | None = None
    max_unavailable: IntOrString | None = None


class DeploymentStrategy(Object):
    rolling_update: RollingUpdateDeployment | None = None
    type: str | None = None


class DeploymentSpec(Object):
    min_ready_seconds: int | None = None
    paused: bool | None = None
    progress_deadline_seconds: int | None = None
    replicas: int | None = None
    revision_history_limit: int | None = None
    selector: LabelSelector
    strategy: DeploymentStrategy | None = None
    template: PodTemplateSpec


class DeploymentCondition(Object):
    last_transition_time: datetime | None = None
    last_update_time: datetime | None = None
    message: str | None = None
    reason: str | None = None
    status: str
    type: str


class DeploymentStatus(Object):
    available_replicas: int | None = None
    collision_count: int | None = None
    conditions: tuple[DeploymentCondition, ...] = ()
    observed_generation: int | None = None
    ready_replicas: int | None = None
    replicas: int | None = None
    terminating_replicas: int | None = None
    unavailable_replicas: int | None = None
    updated_replicas: int | None = None


class Deployment(FullResource, api_version="apps/v1", plural="deployments"):
    spec: DeploymentSpec
    status: DeploymentStatus = DeploymentStatus()


class ReplicaSetSpec(Object):
    min_ready_seconds: int | None = None
    replicas: int | None = None
    selector: LabelSelector
    template: PodTemplateSpec | None = None


class ReplicaSetCondition(Object):
    last_transition_time: datetime | None = None
    message: str | None = None
    reason: str | None = None
    status: str
    type: str


class ReplicaSetStatus(Object):
    available_replicas: int | None = None
    conditions: tuple[ReplicaSetCondition, ...] = ()
    fully_labeled_replicas: int | None = None
    observed_generation: int | None = None
    ready_replicas: int | None = None
    replicas: int
    terminating_replicas: int | None = None


class ReplicaSet(FullResource, api_version="apps/v1", plural="replicasets"):
    spec: ReplicaSetSpec
    status: ReplicaSetStatus | None = None


class StatefulSetOrdinals(Object):
    start: int | None = None


class StatefulSetPersistentVolumeClaimRetentionPolicy(Object):
    when_deleted: str | None = None
    when_scaled: str | None = None


class RollingUpdateStatefulSetStrategy(Object):
    max_unavailable: IntOrString | None = None
    partition: int | None = None


class StatefulSetUpdateStrategy(Object):
    rolling_update: RollingUpdateStatefulSetStrategy | None = None
    type: str | None = None


class StatefulSetSpec(Object):
    min_ready_seconds: int | None = None
    ordinals: StatefulSetOrdinals | None = None
    persistent_volume_claim_retention_policy: StatefulSetPersistentVolumeClaimRetentionPolicy | None = None
    pod_management_policy: str | None = None
    replicas: int | None = None
    revision_history_limit: int | None = None
    selector: LabelSelector
    service_name: str | None = None
    template: PodTemplateSpec
    update_strategy: StatefulSetUpdateStrategy | None = None
    volume_claim_templates: tuple[EmbeddedPersistentVolumeClaim, ...] = ()


class StatefulSetCondition(Object):
    last_transition_time: datetime | None = None
    message: str | None = None
    reason: str | None = None
    status: str
    type: str


class StatefulSetStatus(Object):
    available_replicas: int | None = None
    collision_count: int | None = None
    conditions: tuple[StatefulSetCondition, ...] = ()
    current_replicas: int | None = None
    current_revision: str | None = None
    observed_generation: int | None = None
    ready_replicas: int | None = None
    replicas: int
    update_revision: str | None = None
    updated_replicas: int | None = None


class StatefulSet(FullResource, api_version="apps/v1", plural="statefulsets"):
    spec: StatefulSetSpec
    status: StatefulSetStatus | None = None
