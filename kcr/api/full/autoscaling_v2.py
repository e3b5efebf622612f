# Made by `python -m tools.api_types`: do not edit.
"""Types of autoscaling/v2, whole."""

from datetime import datetime

from kcr.api.markers import Quantity
from kcr.api.meta import FullResource, Object
from kcr.api.selectors import LabelSelector


class CrossVersionObjectReference(Object):
    """CrossVersionObjectReference of autoscaling/v2."""

    api_version: str | None = None
    kind: str
    name: str


class HPAScalingPolicy(Object):
    """HPAScalingPolicy of autoscaling/v2."""

    period_seconds: int
    type: str
    value: int


class HPAScalingRules(Object):
    """HPAScalingRules of autoscaling/v2."""

    policies: tuple[HPAScalingPolicy, ...] = ()
    select_policy: str | None = None
    stabilization_window_seconds: int | None = None
    tolerance: Quantity | None = None


class HorizontalPodAutoscalerBehavior(Object):
    """HorizontalPodAutoscalerBehavior of autoscaling/v2."""

    scale_down: HPAScalingRules | None = None
    scale_up: HPAScalingRules | None = None


class MetricTarget(Object):
    """MetricTarget of autoscaling/v2."""

    average_utilization: int | None = None
    average_value: Quantity | None = None
    type: str
    value: Quantity | None = None


class ContainerResourceMetricSource(Object):
    """ContainerResourceMetricSource of autoscaling/v2."""

    container: str
    name: str
    target: MetricTarget


class MetricIdentifier(Object):
    """MetricIdentifier of autoscaling/v2."""

    name: str
    selector: LabelSelector | None = None


class ExternalMetricSource(Object):
    """ExternalMetricSource of autoscaling/v2."""

    metric: MetricIdentifier
    target: MetricTarget


class ObjectMetricSource(Object):
    """ObjectMetricSource of autoscaling/v2."""

    described_object: CrossVersionObjectReference
    metric: MetricIdentifier
    target: MetricTarget


class PodsMetricSource(Object):
    """PodsMetricSource of autoscaling/v2."""

    metric: MetricIdentifier
    target: MetricTarget


class ResourceMetricSource(Object):
    """ResourceMetricSource of autoscaling/v2."""

    name: str
    target: MetricTarget


class MetricSpec(Object):
    """MetricSpec of autoscaling/v2."""

    container_resource: ContainerResourceMetricSource | None = None
    external: ExternalMetricSource | None = None
    object: ObjectMetricSource | None = None
    pods: PodsMetricSource | None = None
    resource: ResourceMetricSource | None = None
    type: str


class HorizontalPodAutoscalerSpec(Object):
    """HorizontalPodAutoscalerSpec of autoscaling/v2."""

    behavior: HorizontalPodAutoscalerBehavior | None = None
    max_replicas: int
    metrics: tuple[MetricSpec, ...] = ()
    min_replicas: int | None = None
    scale_target_ref: CrossVersionObjectReference


class HorizontalPodAutoscalerCondition(Object):
    """HorizontalPodAutoscalerCondition of autoscaling/v2."""

    last_transition_time: datetime | None = None
    message: str | None = None
    observed_generation: int | None = None
    reason: str | None = None
    status: str
    type: str


class MetricValueStatus(Object):
    """MetricValueStatus of autoscaling/v2."""

    average_utilization: int | None = None
    average_value: Quantity | None = None
    value: Quantity | None = None


class ContainerResourceMetricStatus(Object):
    """ContainerResourceMetricStatus of autoscaling/v2."""

    container: str
    current: MetricValueStatus
    name: str


class ExternalMetricStatus(Object):
    """ExternalMetricStatus of autoscaling/v2."""

    current: MetricValueStatus
    metric: MetricIdentifier


class ObjectMetricStatus(Object):
    """ObjectMetricStatus of autoscaling/v2."""

    current: MetricValueStatus
    described_object: CrossVersionObjectReference
    metric: MetricIdentifier


class PodsMetricStatus(Object):
    """PodsMetricStatus of autoscaling/v2."""

    current: MetricValueStatus
    metric: MetricIdentifier


class ResourceMetricStatus(Object):
    """ResourceMetricStatus of autoscaling/v2."""

    current: MetricValueStatus
    name: str


class MetricStatus(Object):
    """MetricStatus of autoscaling/v2."""

    container_resource: ContainerResourceMetricStatus | None = None
    external: ExternalMetricStatus | None = None
    object: ObjectMetricStatus | None = None
    pods: PodsMetricStatus | None = None
    resource: ResourceMetricStatus | None = None
    type: str


class HorizontalPodAutoscalerStatus(Object):
    """HorizontalPodAutoscalerStatus of autoscaling/v2."""

    conditions: tuple[HorizontalPodAutoscalerCondition, ...] = ()
    current_metrics: tuple[MetricStatus, ...] = ()
    current_replicas: int | None = None
    desired_replicas: int
    last_scale_time: datetime | None = None
    observed_generation: int | None = None


class HorizontalPodAutoscaler(FullResource, api_version="autoscaling/v2", plural="horizontalpodautoscalers"):
    """HorizontalPodAutoscaler of autoscaling/v2."""

    spec: HorizontalPodAutoscalerSpec
    status: HorizontalPodAutoscalerStatus | None = None
