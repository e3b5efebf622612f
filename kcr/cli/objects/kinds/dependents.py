"""Follows the owner of workloads, of plugins' kinds and of pods to the one that is the cause of its trouble.

Lists that the user may not read are empty.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TypeVar

import msgspec

from kcr.api import selectors
from kcr.api.core import Event
from kcr.api.explanation import Code, Explanation, merged
from kcr.api.meta import Resource, controller_of, is_controlled_by
from kcr.api.pod_symptoms import DetailedPod
from kcr.api.unstructured import Unstructured, unstructured
from kcr.cli.objects.generic import owner_text
from kcr.cli.objects.kinds.pods import change_of, explain_pod
from kcr.cli.objects.kinds.workloads import ObservedWorkload, explain_workload
from kcr.client import Client
from kcr.client.explainers import Explainer, ExplainerError, last_seen, read_pod_context
from kcr.errors import ForbiddenError, NotFoundError

R = TypeVar("R", bound=Resource)

_WORKLOADS = tuple(
    unstructured("apps/v1", kind, plural=f"{kind.lower()}s") for kind in ("Deployment", "StatefulSet", "DaemonSet")
)
# So many of each kind are explained.
_MOST = 5
# The states of a dependent that delay its owner.
_TROUBLES = (Code.FAILED, Code.PODS_NOT_READY, Code.REFUSED, Code.NO_CONTROLLER)
_REPLICASETS = unstructured("apps/v1", "ReplicaSet", plural="replicasets")


async def with_dependents(
    client: Client, obj: Unstructured, explanation: Explanation, now: datetime, explainers: Sequence[Explainer]
) -> Explanation:
    """Return the explanation of a custom resource, with the trouble of the objects it owns, if there is any.

    Args:
        client: Where to read.
        obj: The object; only kinds of a user's own are followed, for the others own nothing of the kind.
        explanation: The explanation of the object itself.
        now: The moment to judge at.
        explainers: Those of plugins, whose kinds are followed as well.
    """
    group = obj.resource.group
    if "." not in group or group.endswith(".k8s.io") or not obj.resource.namespaced:
        return explanation
    if explanation.code is Code.TERMINATING:
        return explanation
    async for dependent, found in _dependents(client, obj, now, explainers):
        if found.code in _TROUBLES:
            kind, metadata = dependent.resource.kind.lower(), dependent.metadata
            see = f"see it: kcr explain -n {metadata.namespace} {kind}/{metadata.name}"
            # Who owns it is where this began.
            own = tuple(reason for reason in found.reasons if reason not in owner_text(metadata))
            cause = Explanation(
                # That a Job has failed is trouble with pods to its owner.
                Code.PODS_NOT_READY if found.code is Code.FAILED else found.code,
                f"its {kind} {metadata.name} {found.headline}",
                reasons=own,
                remedies=(*found.remedies, see),
            )
            return merged(explanation, cause)
    return explanation


async def _dependents(
    client: Client, obj: Unstructured, now: datetime, explainers: Sequence[Explainer]
) -> AsyncIterator[tuple[Resource, Explanation]]:
    """Yield the objects that an object owns, each with its explanation."""
    namespace = obj.metadata.namespace
    for kind in _WORKLOADS:
        for workload in _newest(obj, await list_or_nothing(client, kind, namespace)):
            yield workload, explain_workload(await read_workload(client, workload, (), now))
    for explainer in (one for one in explainers if one.kind.resource.namespaced):
        for one in _newest(obj, await list_or_nothing(client, explainer.kind, namespace)):
            with suppress(ExplainerError):
                yield one, await explainer(client, one, (), now)
    for pod in _newest(obj, await list_or_nothing(client, DetailedPod, namespace)):
        context = await read_pod_context(client, [pod], change_of(pod.metadata))
        yield pod, explain_pod(pod, context, now)


def _newest(owner: Resource, found: Iterable[R]) -> list[R]:
    """Return the newest of the objects that another one owns: each costs requests, and old ones matter less."""
    owned = [one for one in found if any(ref.uid == owner.metadata.uid for ref in one.metadata.owner_references)]
    return sorted(owned, key=lambda one: str(one.metadata.creation_timestamp), reverse=True)[:_MOST]


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
