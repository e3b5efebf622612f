"""Pods that are scheduled all or none: the Workload and the PodGroup of a Job whose members need each other.

Alpha, and off unless the gates `GenericWorkload` and `WorkloadWithJob` are on. Whatever does not fit, such as a
Workload that another client created, leaves the Job to be scheduled as any other.

Source: kubernetes/pkg/controller/job (WorkloadWithJob); job-controller §35.
"""

import hashlib

from kcr.api.batch import Job, is_indexed
from kcr.api.conditions import find_condition
from kcr.api.meta import ObjectMeta, OwnerReference, controller_reference
from kcr.api.scheduling import (
    GangSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    PodGroupTemplate,
    PodGroupTemplateReference,
    TypedLocalReference,
    Workload,
    WorkloadSpec,
    WorkloadTemplateReference,
)
from kcr.controllers.job.decisions.lifecycle import SUSPENDED
from kcr.controllers.job.decisions.pod_template import names_group

MAX_NAME = 253
HASH_LENGTH = 10


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


def workload_of(job: Job) -> Workload:
    """Return the Workload of a Job: one group of all its pods. Its name is always the same."""
    hashed = _hash(job.metadata.uid)
    policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count=job.spec.parallelism or 0))
    return Workload(
        metadata=ObjectMeta(
            name=f"{job.metadata.name[: MAX_NAME - HASH_LENGTH - 1]}-{hashed}",
            namespace=job.metadata.namespace,
            owner_references=(controller_reference(job),),
        ),
        spec=WorkloadSpec(
            controller_ref=TypedLocalReference(api_group="batch", kind="Job", name=job.metadata.name),
            pod_group_templates=(PodGroupTemplate(name=f"{job.metadata.name}-pgt-0", scheduling_policy=policy),),
        ),
    )


def pod_group_of(job: Job, workload: Workload) -> PodGroup:
    """Return the group that is made of a Workload's only template."""
    template, name = workload.spec.pod_group_templates[0], workload.metadata.name
    room = MAX_NAME - HASH_LENGTH - 2
    # Each part gets half of the room, and the rest of the other half.
    first = name[: max(room // 2, room - len(template.name))]
    second = template.name[: room - len(first)]
    owner = OwnerReference(
        api_version=Workload.resource.api_version, kind="Workload", name=name, uid=workload.metadata.uid
    )
    reference = WorkloadTemplateReference(workload_name=name, pod_group_template_name=template.name)
    return PodGroup(
        metadata=ObjectMeta(
            name=f"{first}-{second}-{_hash(job.metadata.uid)}",
            namespace=job.metadata.namespace,
            owner_references=(controller_reference(job), owner),
        ),
        spec=PodGroupSpec(
            pod_group_template_ref=PodGroupTemplateReference(workload=reference),
            scheduling_policy=template.scheduling_policy,
        ),
    )


def refers_to(workload: Workload, job: Job) -> bool:
    """Return whether a Workload says that it is about a Job of this name."""
    reference = workload.spec.controller_ref
    about = (reference.api_group, reference.kind, reference.name) if reference is not None else None
    return about == ("batch", Job.resource.kind, job.metadata.name)


def is_made_from(group: PodGroup, workload: Workload) -> bool:
    """Return whether a group says that it was made from a Workload."""
    origin = group.spec.pod_group_template_ref
    return (
        origin is not None and origin.workload is not None and origin.workload.workload_name == workload.metadata.name
    )


def _hash(uid: str) -> str:
    return hashlib.sha256(uid.encode()).hexdigest()[:HASH_LENGTH]
