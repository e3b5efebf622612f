# Made by `python -m tools.api_types`: do not edit.
"""Types of scheduling/v1alpha3, whole."""

import msgspec

from kcr.api.meta import Object


class WorkloadPodGroupDisruptionMode(Object):
    """WorkloadPodGroupDisruptionMode of scheduling/v1alpha3."""

    all: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    single: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class WorkloadPodGroupResourceClaim(Object):
    """WorkloadPodGroupResourceClaim of scheduling/v1alpha3."""

    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class TopologyConstraint(Object):
    """TopologyConstraint of scheduling/v1alpha3."""

    key: str


class WorkloadPodGroupSchedulingConstraints(Object):
    """WorkloadPodGroupSchedulingConstraints of scheduling/v1alpha3."""

    topology: tuple[TopologyConstraint, ...] = ()


class WorkloadPodGroupGangSchedulingPolicy(Object):
    """WorkloadPodGroupGangSchedulingPolicy of scheduling/v1alpha3."""

    min_count: int | None = None


class WorkloadPodGroupSchedulingPolicy(Object):
    """WorkloadPodGroupSchedulingPolicy of scheduling/v1alpha3."""

    basic: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    gang: WorkloadPodGroupGangSchedulingPolicy | None = None
