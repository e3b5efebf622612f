"""Pods that are scheduled all or none: the Workload and the PodGroup of a Job whose members need each other.

Alpha, and off unless the gates `GenericWorkload` and `WorkloadWithJob` are on. Whatever does not fit, such as a
Workload that another client created, leaves the Job to be scheduled as any other.

Source: kubernetes/pkg/controller/job/job_scheduling_manager.go; job-controller §35; KEP-5547, KEP-6089.
"""

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from kcr.api.batch import Job, JobSchedulingConfiguration, is_indexed
from kcr.api.conditions import find_condition
from kcr.api.core import Pod
from kcr.api.meta import ObjectMeta, OwnerReference, controller_of, controller_reference, is_controlled_by
from kcr.api.pods import is_active
from kcr.api.scheduling import (
    BasicSchedulingPolicy,
    BetaPodGroup,
    BetaWorkload,
    GangSchedulingPolicy,
    PodGroup,
    PodGroupOptions,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    PodGroupTemplate,
    PodGroupTemplateReference,
    TypedLocalReference,
    Workload,
    WorkloadReference,
    WorkloadSpec,
    WorkloadTemplateReference,
)
from kcr.controllers.job.decisions.lifecycle import SUSPENDED
from kcr.controllers.job.decisions.pod_template import names_group

# Names the template in the Workload of a Job's controller, which leaves the group to the controller of Jobs.
GROUP_TEMPLATE = "scheduling.k8s.io/group-template-name"
MAX_NAME = 253
HASH_LENGTH = 10
# The names of templates are labels in v1beta1.
_MAX_LABEL = 63
# The scheduler writes one of them, by version: whether a group has been scheduled.
_SCHEDULED = ("PodGroupInitiallyScheduled", "PodGroupScheduled")


class GangVersion(NamedTuple):
    """The kinds of one version of `scheduling.k8s.io`.

    Attributes:
        workload: Its Workload.
        group: Its PodGroup.
        is_explicit: Whether the user chooses the policy, by `spec.scheduling`; otherwise the form of the Job does.
    """

    workload: type[Workload]
    group: type[PodGroup]
    is_explicit: bool


ALPHA = GangVersion(Workload, PodGroup, is_explicit=False)
BETA = GangVersion(BetaWorkload, BetaPodGroup, is_explicit=True)
# The newest first.
VERSIONS = (BETA, ALPHA)


def is_grouped(job: Job, version: GangVersion) -> bool:
    """Return whether the pods of a Job get a group, by this version.

    With an explicit policy those of all Jobs do, unless their template names one, or the Job belongs to a controller
    that sees to it.
    """
    if not version.is_explicit:
        return is_gang(job)
    return not names_group(job) and (parent_of(job, version) is None or GROUP_TEMPLATE in job.metadata.annotations)


def parent_of(job: Job, version: GangVersion) -> OwnerReference | None:
    """Return the controller whose Workload is the Job's; None where the Job, as one of a CronJob, has its own."""
    owner = controller_of(job.metadata)
    return owner if version.is_explicit and owner is not None and owner.kind != "CronJob" else None


def policy_of(job: Job, version: GangVersion) -> PodGroupSchedulingPolicy:
    """Return how the pods of a Job are scheduled: as a gang of a size, or each for itself."""
    size = job.spec.parallelism or 0
    if version.is_explicit:
        asked = job.spec.scheduling.scheduling_policy if job.spec.scheduling is not None else None
        if asked is None or asked.gang is None:
            return PodGroupSchedulingPolicy(basic=BasicSchedulingPolicy())
        # Not written to the Job, where it would look as if the user had chosen it.
        size = max(size, 1) if asked.gang.min_count is None else asked.gang.min_count
    return PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count=size))


def gang_size(policy: PodGroupSchedulingPolicy | None) -> int | None:
    """Return how many pods have to be placed at once; None where each is scheduled for itself."""
    return policy.gang.min_count if policy is not None and policy.gang is not None else None


def state_text(group: PodGroup, pods: Iterable[Pod]) -> str:
    """Return the state of a gang as a fact, such as `gang: 3 of 8 pods can be placed; …`; empty once it is scheduled.

    Args:
        group: Its group, with the condition that the scheduler has written.
        pods: The pods of its Job.
    """
    size = gang_size(group.spec.scheduling_policy)
    found = (find_condition(group.status.conditions, kind) for kind in _SCHEDULED)
    condition = next((one for one in found if one is not None), None)
    if size is None or (condition is not None and condition.status == "True"):
        return ""
    if condition is not None and condition.message:
        return f"gang: {condition.message}"
    active = [pod for pod in pods if is_active(pod)]
    if len(active) < size:
        return f"gang: {len(active)} of {size} pods exist; waits for the others"
    placed = sum(bool(pod.spec.node_name) for pod in active)
    return f"gang: {placed} of {size} pods have a node; waits for the scheduler"


def is_gang(job: Job) -> bool:
    """Return whether all pods of the Job run side by side, so that some of them are of no use alone."""
    spec = job.spec
    together = is_indexed(job) and spec.parallelism == spec.completions
    return together and (spec.parallelism or 0) > 1 and not names_group(job)


def is_new(job: Job, *, has_pods: bool) -> bool:
    """Return whether nothing has come of the Job yet; only then may its pods still become a group."""
    status = job.status
    begun = status.start_time is not None or status.succeeded or status.failed
    return not has_pods and not begun and find_condition(status.conditions, SUSPENDED) is None


def workload_of(job: Job, version: GangVersion = ALPHA) -> Workload:
    """Return the Workload of a Job: one group of all its pods. Its name is always the same."""
    hashed = _hash(job.metadata.uid)
    asked = job.spec.scheduling if version.is_explicit else None
    asked = asked or JobSchedulingConfiguration()
    template = PodGroupTemplate(
        name=_template_name(job, version),
        scheduling_policy=policy_of(job, version),
        scheduling_constraints=asked.scheduling_constraints,
        disruption_mode=asked.disruption_mode,
        resource_claims=asked.resource_claims,
    )
    return version.workload(
        metadata=ObjectMeta(
            name=f"{job.metadata.name[: MAX_NAME - HASH_LENGTH - 1]}-{hashed}",
            namespace=job.metadata.namespace,
            owner_references=(controller_reference(job),),
        ),
        spec=WorkloadSpec(
            controller_ref=TypedLocalReference(api_group="batch", kind="Job", name=job.metadata.name),
            pod_group_templates=(template,),
        ),
    )


def _template_name(job: Job, version: GangVersion) -> str:
    name, suffix = job.metadata.name, "-pgt-0"
    return f"{name.replace('.', '-')[: _MAX_LABEL - len(suffix)] if version.is_explicit else name}{suffix}"


def template_of(workload: Workload, job: Job, version: GangVersion) -> PodGroupTemplate | None:
    """Return the template of a Job's group in the Workload that refers to it; None where that has none for it."""
    templates = workload.spec.pod_group_templates
    if parent_of(job, version) is None:
        return templates[0] if len(templates) == 1 and is_controlled_by(workload, job) else None
    return next((one for one in templates if one.name == job.metadata.annotations.get(GROUP_TEMPLATE)), None)


def pod_group_of(job: Job, workload: Workload, template: PodGroupTemplate, version: GangVersion = ALPHA) -> PodGroup:
    """Return the group that is made of a template of a Workload."""
    name = workload.metadata.name
    room = MAX_NAME - HASH_LENGTH - 2
    # Each part gets half of the room, and the rest of the other half.
    first = name[: max(room // 2, room - len(template.name))]
    second = template.name[: room - len(first)]
    owners = [controller_reference(job)]
    if parent_of(job, version) is None:
        kind = version.workload.resource
        owners.append(
            OwnerReference(api_version=kind.api_version, kind="Workload", name=name, uid=workload.metadata.uid)
        )
    if version.is_explicit:
        made_from = PodGroupSpec(workload_ref=WorkloadReference(workload_name=name, template_name=template.name))
    else:
        reference = WorkloadTemplateReference(workload_name=name, pod_group_template_name=template.name)
        made_from = PodGroupSpec(pod_group_template_ref=PodGroupTemplateReference(workload=reference))
    return version.group(
        metadata=ObjectMeta(
            name=f"{first}-{second}-{_hash(job.metadata.uid)}",
            namespace=job.metadata.namespace,
            owner_references=tuple(owners),
        ),
        spec=replace(made_from, **{field: getattr(template, field) for field in PodGroupOptions.__struct_fields__}),
    )


def refers_to(workload: Workload, job: Job, version: GangVersion = ALPHA) -> bool:
    """Return whether a Workload says that it is about a Job of this name, or about its parent."""
    reference, parent = workload.spec.controller_ref, parent_of(job, version)
    if reference is None:
        return False
    wanted = ("batch", Job.resource.kind, job.metadata.name)
    if parent is not None:
        wanted = (parent.api_version.rpartition("/")[0], parent.kind, parent.name)
    return (reference.api_group, reference.kind, reference.name) == wanted


def is_made_from(group: PodGroup, workload: Workload) -> bool:
    """Return whether a group says that it was made from a Workload."""
    origin = group.spec.pod_group_template_ref
    reference = group.spec.workload_ref or (origin.workload if origin is not None else None)
    return reference is not None and reference.workload_name == workload.metadata.name


def _hash(uid: str) -> str:
    return hashlib.sha256(uid.encode()).hexdigest()[:HASH_LENGTH]
