"""Workloads and groups of pods, which are scheduled all or none (`scheduling.k8s.io/v1alpha2`)."""

from kcr.api.meta import Object, Resource


class GangSchedulingPolicy(Object):
    """None of a group's pods is scheduled before so many can be."""

    min_count: int = 0


class BasicSchedulingPolicy(Object):
    """Each pod is scheduled for itself."""


class PodGroupSchedulingPolicy(Object):
    """How a group is scheduled: exactly one is set."""

    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class TypedLocalReference(Object):
    """Names an object of the same namespace by group, kind and name."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class PodGroupTemplate(Object):
    """The template of one kind of a workload's groups."""

    name: str = ""
    scheduling_policy: PodGroupSchedulingPolicy | None = None


class WorkloadSpec(Object):
    """Whose pods are meant, and in which groups they come."""

    controller_ref: TypedLocalReference | None = None
    pod_group_templates: tuple[PodGroupTemplate, ...] = ()


class Workload(Resource, api_version="scheduling.k8s.io/v1alpha2", plural="workloads"):
    """How the pods of an application are to be scheduled."""

    spec: WorkloadSpec = WorkloadSpec()


class WorkloadTemplateReference(Object):
    """Names a template of a workload."""

    workload_name: str = ""
    pod_group_template_name: str = ""


class PodGroupTemplateReference(Object):
    """Where a group was made from."""

    workload: WorkloadTemplateReference | None = None


class PodGroupSpec(Object):
    """Where a group comes from, and its policy."""

    pod_group_template_ref: PodGroupTemplateReference | None = None
    scheduling_policy: PodGroupSchedulingPolicy | None = None


class PodGroup(Resource, api_version="scheduling.k8s.io/v1alpha2", plural="podgroups"):
    """Pods that are scheduled together."""

    spec: PodGroupSpec = PodGroupSpec()
