# Made by `python -m tools.api_types`: do not edit.
"""Types of autoscaling/v2, whole."""

from datetime import datetime

from kcr.api.markers import Quantity
from kcr.api.meta import FullResource, Object
from kcr.api.selectors import LabelSelector


class CrossVersionObjectReference(Object):
    api_version: str | None = None
    kind: str
    name: str


class HPAScalingPolicy(Object):
    period_seconds: int
    type: str
    value: int


class HPAScalingRules(Object):
    policies: tuple[HPAScalingPolicy, ...] = ()
    select_policy: str | None = None
    stabilization_window_seconds: int | None = None
    tolerance: Quantity | None = None


class HorizontalPodAutoscalerBehavior(Object):
    scale_down: HPAScalingRules | None = None
    scale_up: HPAScalingRules | None = None


class MetricTarget(Object):
    average_utilization: int | None = None
    average_value: Quantity | None = None
    type: str
    value: Quantity | None = None


class ContainerResourceMetricSource(Object):
    container: str
    name: str
    target: MetricTarget


class MetricIdentifier(Object):
    name: str
    selector: LabelSelector | None = None


class ExternalMetricSource(Object):
    metric: MetricIdentifier
    target: MetricTarget


class ObjectMetricSource(Object):
    described_object: CrossVersionObjectReference
    metric: MetricIdentifier
    target: MetricTarget


class PodsMetricSource(Object):
    metric: MetricIdentifier
    target: MetricTarget


class ResourceMetricSource(Object):
    name: str
    target: MetricTarget


class MetricSpec(Object):
    container_resource: ContainerResourceMetricSource | None = None
    external: ExternalMetricSource | None = None
    object: ObjectMetricSource | None = None
    pods: PodsMetricSource | None = None
    resource: ResourceMetricSource | None = None
    type: str


class HorizontalPodAutoscalerSpec(Object):
    behavior: HorizontalPodAutoscalerBehavior | None = None
    max_replicas: int
    metrics: tuple[MetricSpec, ...] = ()
    min_replicas: int | None = None
    scale_target_ref: CrossVersionObjectReference


class HorizontalPodAutoscalerCondition(Object):
    last_transition_time: datetime | None = None
    message: str | None = None
    observed_generation: int | None = None
    reason: str | None = None
    status: str
    type: str


class MetricValueStatus(Object):
    average_utilization: int | None = None
    average_value: Quantity | None = None
    value: Quantity | None = None


class ContainerResourceMetricStatus(Object):
    container: str
    current: MetricValueStatus
    name: str


class ExternalMetricStatus(Object):
    current: MetricValueStatus
    metric: MetricIdentifier


class ObjectMetricStatus(Object):
    current: MetricValueStatus
    described_object: CrossVersionObjectReference
    metric: MetricIdentifier


class PodsMetricStatus(Object):
    current: MetricValueStatus
    metric: MetricIdentifier


class ResourceMetricStatus(Object):
    current: MetricValueStatus
    name: str


class MetricStatus(Object):
    container_resource: ContainerResourceMetricStatus | None = None
    external: ExternalMetricStatus | None = None
    object: ObjectMetricStatus | None = None
    pods: PodsMetricStatus | None = None
    resource: ResourceMetricStatus | None = None
    type: str


class HorizontalPodAutoscalerStatus(Object):
    conditions: tuple[HorizontalPodAutoscalerCondition, ...] = ()
    current_metrics: tuple[MetricStatus, ...] = ()
    current_replicas: int | None = None
    desired_replicas: int
    last_scale_time: datetime | None = None
    observed_generation: int | None = None


class HorizontalPodAutoscaler(FullResource, api_version="autoscaling/v2", plural="horizontalpodautoscalers"):
    spec: HorizontalPodAutoscalerSpec
    status: HorizontalPodAutoscalerStatus | None = None
