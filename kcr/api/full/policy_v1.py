# Made by `python -m tools.api_types`: do not edit.
"""Types of policy/v1, whole."""

from collections.abc import Mapping
from datetime import datetime

from kcr.api.markers import IntOrString
from kcr.api.meta import Condition, FullResource, Object
from kcr.api.selectors import LabelSelector


class PodDisruptionBudgetSpec(Object):
    max_unavailable: IntOrString | None = None
    min_available: IntOrString | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Object):
    conditions: tuple[Condition, ...] = ()
    current_healthy: int | None = None
    desired_healthy: int | None = None
    disrupted_pods: Mapping[str, datetime] = {}
    disruptions_allowed: int | None = None
    expected_pods: int | None = None
    observed_generation: int | None = None


class PodDisruptionBudget(FullResource, api_version="policy/v1", plural="poddisruptionbudgets"):
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
