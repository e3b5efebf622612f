# Made by `python -m tools.api_types`: do not edit.
"""Types of scheduling/v1alpha3, whole."""

import msgspec

from kcr.api.meta import Object


class WorkloadPodGroupDisruptionMode(Object):
    all: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    single: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class WorkloadPodGroupResourceClaim(Object):
    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class TopologyConstraint(Object):
    key: str


class WorkloadPodGroupSchedulingConstraints(Object):
    topology: tuple[TopologyConstraint, ...] = ()


class WorkloadPodGroupGangSchedulingPolicy(Object):
    min_count: int | None = None


class WorkloadPodGroupSchedulingPolicy(Object):
    basic: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    gang: WorkloadPodGroupGangSchedulingPolicy | None = None
