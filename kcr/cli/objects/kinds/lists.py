"""Reads the pods of a workload, and lists that the user may not be allowed to read."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from kcr.api import selectors
from kcr.api.core import Event
from kcr.api.meta import Resource, controller_of, is_controlled_by
from kcr.api.pod_symptoms import DetailedPod
from kcr.api.unstructured import Unstructured, unstructured
from kcr.cli.objects.kinds.workloads import ObservedWorkload
from kcr.client import Client
from kcr.client.explainers import last_seen, read_pod_context
from kcr.errors import ForbiddenError, NotFoundError

R = TypeVar("R", bound=Resource)

_REPLICASETS = unstructured("apps/v1", "ReplicaSet", plural="replicasets")


async def list_or_nothing(
    client: Client, kind: type[R], namespace: str, *, labels: str = "", fields: str = ""
) -> tuple[R, ...]:
    """List objects, or none where they may not be read or are of a kind that is not served."""
    try:
        return tuple(await client.list(kind, namespace, labels=labels, fields=fields))
    except (ForbiddenError, NotFoundError):
        return ()


async def read_workload(client: Client, obj: Unstructured, events: Sequence[Event], now: datetime) -> ObservedWorkload:
    """Read the pods of a workload, and the objects and events that explain why they do not run.

    Args:
        client: Where to read.
        obj: The workload.
        events: Those about it, the latest last.
        now: The moment to judge at.
    """
    namespace, spec = obj.metadata.namespace, obj.get("spec") or {}
    selector = msgspec.convert(spec.get("selector") or {}, selectors.LabelSelector)
    labels, owners, tries = selectors.text(selector), {obj.metadata.uid}, list(events)
    if obj.resource.kind == "Deployment":
        listed = await list_or_nothing(client, _REPLICASETS, namespace, labels=labels)
        sets = [one for one in listed if is_controlled_by(one, obj)]
        owners = {one.metadata.uid for one in sets}
        for one in sets:
            fields = f"involvedObject.kind=ReplicaSet,involvedObject.name={one.metadata.name}"
            tries += await list_or_nothing(client, Event, namespace, fields=fields)
    pods = tuple(
        pod
        for pod in await list_or_nothing(client, DetailedPod, namespace, labels=labels)
        if (owner := controller_of(pod.metadata)) is not None and owner.uid in owners
    )
    change = f"change {obj.resource.kind.lower()}/{obj.metadata.name} to"
    creations = (event for event in tries if event.reason in ("FailedCreate", "SuccessfulCreate"))
    context = await read_pod_context(client, pods, change)
    return ObservedWorkload(obj, pods, tuple(sorted(creations, key=last_seen)), context, now)
