"""The pods a Job makes: its template, and what the controller adds to it."""

import msgspec
from msgspec.structs import replace

from controllers.job.pods import TRACKING_FINALIZER
from kcr.api import codec
from kcr.api.batch import Job
from kcr.api.meta import Object, ObjectMeta, Resource, controller_reference

# A pod's name is a label value elsewhere.
MAX_NAME = 63


class PodToCreate(Resource, api_version="v1", kind="Pod", plural="pods"):
    """A pod whose spec is carried as it stands in the template."""

    spec: msgspec.Raw


class _Template(Object):
    metadata: ObjectMeta = ObjectMeta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class _RestartPolicy(Object):
    restart_policy: str = ""


def restart_policy(job: Job) -> str:
    """Return the restartPolicy of the Job's pods: Never or OnFailure."""
    template = codec.decode(_Template, bytes(job.spec.template))
    return codec.decode(_RestartPolicy, bytes(template.spec)).restart_policy


def prototype(job: Job) -> PodToCreate:
    """Return the pod that all of this Job's pods are copies of, but for the name.

    Of the template's metadata only labels, annotations and finalizers are kept.

    Raises:
        ValueError: The template has no labels, so that no pod of it could ever be found again.

    Source: kubernetes/pkg/controller/controller_utils.go, GetPodFromTemplate.
    """
    template = codec.decode(_Template, bytes(job.spec.template))
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
    return PodToCreate(metadata=metadata, spec=template.spec.copy())


def named(pod: PodToCreate, suffix: str) -> PodToCreate:
    """Return the pod under a name of its own: the prefix, cut to leave room, and a suffix.

    The name is given here and not by the server: a create whose reply was lost can then be sent again, and no
    second pod comes of it.
    """
    prefix = pod.metadata.generate_name[: MAX_NAME - len(suffix)]
    return replace(pod, metadata=replace(pod.metadata, name=prefix + suffix))
