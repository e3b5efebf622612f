"""The pods of a Job: its template, and the controller's additions."""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from kcr.api import codec
from kcr.api.batch import COMPLETION_INDEX, Job, is_indexed
from kcr.api.meta import MAX_PREFIX, Object, ObjectMeta, controller_reference
from kcr.api.pods import PodToCreate, pod_from_template
from kcr.controllers.job.decisions.pods import FAILURE_COUNT, IGNORED_FAILURE_COUNT, TRACKING_FINALIZER

# Where a container finds the index of its pod.
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"

# Objects of which one field is changed, and the others are carried as they stand.
_FIELDS = codec.decoder(dict[str, msgspec.Raw])
_LIST = codec.decoder(tuple[dict[str, msgspec.Raw], ...] | None)


class IndexedPod(msgspec.Struct, frozen=True):
    """The identity of one pod of a Job.

    Attributes:
        index: Its completion index; None in a Job without.
        failures: How often the index has failed before; None where that is not counted.
        ignored: How often it has failed without that counting.
    """

    index: int | None = None
    failures: int | None = None
    ignored: int = 0


class _Spec(Object):
    restart_policy: str = ""
    scheduling_group: Mapping[str, msgspec.Raw] = {}


def restart_policy(job: Job) -> str:
    """Return the restartPolicy of the Job's pods: Never or OnFailure."""
    return _spec(job).restart_policy


def names_group(job: Job) -> bool:
    """Return whether the template says with which other pods the Job's are to be scheduled."""
    return bool(_spec(job).scheduling_group)


def _spec(job: Job) -> _Spec:
    return codec.decode(_Spec, bytes(pod_from_template(job.spec.template).spec))


def build_pod_template(job: Job, group: str = "") -> PodToCreate:
    """Return the pod that all of this Job's pods are copies of, but for the name and the index.

    Of the template's metadata only labels, annotations and finalizers are kept.

    Args:
        job: The Job.
        group: The PodGroup that its pods are to join; empty for none.

    Raises:
        ValueError: The template has no labels, so that no pod of it could ever be found again.

    Source: kubernetes/pkg/controller/controller_utils.go, GetPodFromTemplate.
    """
    template = pod_from_template(job.spec.template)
    if not template.metadata.labels:
        raise ValueError(f"job {job.key}: unable to create pods, no labels")
    finalizers = template.metadata.finalizers
    if TRACKING_FINALIZER not in finalizers:
        finalizers = (*finalizers, TRACKING_FINALIZER)
    metadata = ObjectMeta(
        generate_name=f"{job.metadata.name}-",
        namespace=job.metadata.namespace,
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
        finalizers=finalizers,
        owner_references=(controller_reference(job),),
    )
    spec = _with_variable(template.spec) if is_indexed(job) else template.spec
    return PodToCreate(metadata=metadata, spec=_in_group(spec, group) if group else spec)


def for_index(job: Job, pod: PodToCreate, member: IndexedPod) -> PodToCreate:
    """Return the prototype made out for one member: its index in label, annotation, hostname and name.

    Source: kubernetes/pkg/controller/job/indexed_job_utils.go, addCompletionIndexAnnotation and its like.
    """
    if member.index is None:
        return pod
    index, name, metadata = str(member.index), job.metadata.name, pod.metadata
    counts = {FAILURE_COUNT: member.failures, IGNORED_FAILURE_COUNT: member.ignored or None}
    metadata = replace(
        metadata,
        # The name is cut, never the index.
        generate_name=f"{name[: MAX_PREFIX - len(index) - 2]}-{index}-",
        labels={**metadata.labels, COMPLETION_INDEX: index},
        annotations={
            **metadata.annotations,
            COMPLETION_INDEX: index,
            **{annotation: str(count) for annotation, count in counts.items() if count is not None},
        },
    )
    spec = _FIELDS.decode(pod.spec) | {"hostname": msgspec.Raw(codec.encode(f"{name}-{index}"))}
    return PodToCreate(metadata=metadata, spec=msgspec.Raw(codec.encode(spec)))


def _in_group(spec: msgspec.Raw, group: str) -> msgspec.Raw:
    return msgspec.Raw(codec.encode({**_FIELDS.decode(spec), "schedulingGroup": {"podGroupName": group}}))


def _with_variable(spec: msgspec.Raw) -> msgspec.Raw:
    fields = _FIELDS.decode(spec)
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
    variable = {"name": INDEX_VARIABLE, "valueFrom": source}
    for kind in ("initContainers", "containers"):
        if kind in fields:
            containers = _LIST.decode(fields[kind]) or ()
            fields[kind] = msgspec.Raw(codec.encode([_with(container, variable) for container in containers]))
    return msgspec.Raw(codec.encode(fields))


def _with(container: Mapping[str, msgspec.Raw], variable: Mapping[str, object]) -> Mapping[str, object]:
    present = _LIST.decode(container.get("env", b"[]")) or ()
    names = {bytes(entry.get("name", b"")) for entry in present}
    if codec.encode(variable["name"]) in names:
        return container
    return {**container, "env": (*present, variable)}
