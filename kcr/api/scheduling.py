"""Workloads and groups of pods, which are scheduled all or none (`scheduling.k8s.io`).

Kubernetes 1.36 serves v1alpha2, and 1.37 v1beta1: two views of the same objects, which differ in few fields.
"""

from collections.abc import Mapping
from typing import Any

from kcr.api.meta import Condition, Object, Resource


class GangSchedulingPolicy(Object):
    """None of a group's pods is scheduled before so many can be."""

    min_count: int = 0


class BasicSchedulingPolicy(Object):
    """Each pod is scheduled for itself."""


class PodGroupSchedulingPolicy(Object):
    """How a group is scheduled: exactly one is set."""

    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class SchedulingGroup(Object):
    """The group that a pod belongs to (`spec.schedulingGroup`)."""

    pod_group_name: str = ""


class TypedLocalReference(Object):
    """Names an object of the same namespace by group, kind and name."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class PodGroupOptions(Object):
    """What a template and the group that is made of it have in common."""

    scheduling_policy: PodGroupSchedulingPolicy | None = None
    scheduling_constraints: Mapping[str, Any] | None = None
    # A word in v1alpha2.
    disruption_mode: Mapping[str, Any] | str | None = None
    resource_claims: tuple[Mapping[str, Any], ...] = ()
    priority_class_name: str = ""


class PodGroupTemplate(PodGroupOptions):
    """The template of one kind of a workload's groups."""

    name: str = ""


class WorkloadSpec(Object):
    """Whose pods are meant, and in which groups they come."""

    controller_ref: TypedLocalReference | None = None
    pod_group_templates: tuple[PodGroupTemplate, ...] = ()


class Workload(Resource, api_version="scheduling.k8s.io/v1alpha2", plural="workloads"):
    """How the pods of an application are to be scheduled."""

    spec: WorkloadSpec = WorkloadSpec()


class BetaWorkload(Workload, api_version="scheduling.k8s.io/v1beta1", kind="Workload", plural="workloads"):
    """A `Workload` of Kubernetes 1.37."""


class WorkloadTemplateReference(Object):
    """Names a template of a workload, in v1alpha2."""

    workload_name: str = ""
    pod_group_template_name: str = ""


class PodGroupTemplateReference(Object):
    """Where a group was made from, in v1alpha2."""

    workload: WorkloadTemplateReference | None = None


class WorkloadReference(Object):
    """Where a group was made from, in v1beta1."""

    workload_name: str = ""
    template_name: str = ""


class PodGroupSpec(PodGroupOptions):
    """Where a group comes from, by one of two fields, and its policy."""

    pod_group_template_ref: PodGroupTemplateReference | None = None
    workload_ref: WorkloadReference | None = None


class PodGroupStatus(Object):
    """Whether a group has been scheduled, as the scheduler writes it."""

    conditions: tuple[Condition, ...] = ()


class PodGroup(Resource, api_version="scheduling.k8s.io/v1alpha2", plural="podgroups"):
    """Pods that are scheduled together."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class BetaPodGroup(PodGroup, api_version="scheduling.k8s.io/v1beta1", kind="PodGroup", plural="podgroups"):
    """A `PodGroup` of Kubernetes 1.37."""
