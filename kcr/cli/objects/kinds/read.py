"""Reads an object of a kind with an explanation of its own, and what belongs to it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

import msgspec

from kcr.api import selectors
from kcr.api.core import Event, Namespace, Pod, Service
from kcr.api.explanation import Explanation
from kcr.api.meta import Condition, Key, ObjectMeta, Resource, controller_of, is_controlled_by, metadata_only
from kcr.api.pod_symptoms import DetailedPod
from kcr.api.unstructured import Unstructured, unstructured
from kcr.cli.objects.generic import conditions_of, explain_object
from kcr.cli.objects.kinds.namespaces import Held, explain_namespace, remaining_resources
from kcr.cli.objects.kinds.nodes import explain_node
from kcr.cli.objects.kinds.pods import change_of, explain_pod
from kcr.cli.objects.kinds.webhooks import (
    ServiceState,
    explain_policy,
    explain_webhooks,
    service_of,
    webhooks_of,
)
from kcr.cli.objects.kinds.workloads import ObservedWorkload, explain_workload
from kcr.client import Client
from kcr.client.discovery import all_served_kinds, find_kind
from kcr.client.surroundings import last_seen, read_surroundings
from kcr.errors import ApiError, ForbiddenError, NotFoundError

R = TypeVar("R", bound=Resource)

_REPLICASETS = unstructured("apps/v1", "ReplicaSet", plural="replicasets")
_SLICES = unstructured("discovery.k8s.io/v1", "EndpointSlice", plural="endpointslices")
_BINDINGS = unstructured(
    "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding",
    plural="validatingadmissionpolicybindings", namespaced=False,
)  # fmt: skip
# So many resources of a namespace are searched for what holds it up, and so many objects of each.
_RESOURCES, _OBJECTS = 5, 50


class ReadObject(NamedTuple):
    """An object that was read.

    Attributes:
        metadata: Its metadata.
        conditions: Those of its status.
        explanation: Why it is where it is.
    """

    metadata: ObjectMeta
    conditions: tuple[Condition, ...]
    explanation: Explanation


Reader = Callable[[Client, Unstructured, Sequence[Event], datetime], Awaitable[Explanation]]


async def read_object(
    client: Client, kind: type[Resource], key: Key, events: Sequence[Event], now: datetime
) -> ReadObject:
    """Read an object, and why it is where it is.

    Args:
        client: Where to read.
        kind: Its kind.
        key: Its namespace and name.
        events: Those about objects of its name, the latest last.
        now: The moment to judge at.

    Raises:
        NotFoundError: It is not there.
    """
    place = kind.resource
    whole = unstructured(place.api_version, place.kind, plural=place.plural, namespaced=place.namespaced)
    obj = await client.get(whole, key)
    about = tuple(event for event in events if event.involved_object.uid in ("", obj.metadata.uid))
    reader = _READERS.get((place.group, place.plural), _read_other)
    conditions = () if place.display in _CONDITIONS_TOLD else conditions_of(obj)
    return ReadObject(obj.metadata, conditions, await reader(client, obj, about, now))


async def _read_other(client: Client, obj: Unstructured, events: Sequence[Event], now: datetime) -> Explanation:
    return explain_object(obj, now)


async def _read_pod(client: Client, obj: Unstructured, events: Sequence[Event], now: datetime) -> Explanation:
    pod = await client.get(DetailedPod, obj.key)
    return explain_pod(pod, await read_surroundings(client, [pod], change_of(pod.metadata)), now)


async def _read_workload(client: Client, obj: Unstructured, events: Sequence[Event], now: datetime) -> Explanation:
    return explain_workload(await read_workload(client, obj, events, now))


async def read_workload(client: Client, obj: Unstructured, events: Sequence[Event], now: datetime) -> ObservedWorkload:
    """Read the pods of a workload, and what says why they do not run.

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
        sets = [one for one in await client.list(_REPLICASETS, namespace, labels=labels) if is_controlled_by(one, obj)]
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
    around = await read_surroundings(client, pods, change)
    return ObservedWorkload(obj, pods, tuple(sorted(creations, key=last_seen)), around, now)


async def list_or_nothing(
    client: Client, kind: type[R], namespace: str, *, labels: str = "", fields: str = ""
) -> tuple[R, ...]:
    """List objects, or none where they may not be read or are of a kind that is not served."""
    try:
        return tuple(await client.list(kind, namespace, labels=labels, fields=fields))
    except (ForbiddenError, NotFoundError):
        return ()


async def _read_namespace(client: Client, obj: Unstructured, events: Sequence[Event], now: datetime) -> Explanation:
    namespace = await client.get(Namespace, obj.key)
    held: list[Held] = []
    if resources := remaining_resources(namespace):
        kinds = await all_served_kinds(client)
        for resource in resources[:_RESOURCES]:
            served = find_kind(kinds, resource)
            if served is None:
                continue
            listed = await list_or_nothing(client, metadata_only(served.resource), namespace.metadata.name)
            held += [Held(served.resource, one.metadata) for one in listed[:_OBJECTS]]
    return explain_namespace(namespace, sorted(held, key=lambda one: not one.metadata.finalizers), now)


async def _read_node(client: Client, obj: Unstructured, events: Sequence[Event], now: datetime) -> Explanation:
    return explain_node(obj, await pods_of_node(client, obj.metadata.name), now)


async def pods_of_node(client: Client, name: str) -> tuple[Pod, ...] | None:
    """Return the pods that are bound to a node; None when they may not be read."""
    try:
        return tuple(await client.list(Pod, fields=f"spec.nodeName={name}"))
    except ForbiddenError:
        return None


async def _read_webhooks(client: Client, obj: Unstructured, events: Sequence[Event], now: datetime) -> Explanation:
    keys = {key for hook in webhooks_of(obj) if (key := service_of(hook)) is not None}
    return explain_webhooks(obj, {key: await _service_state(client, key) for key in sorted(keys)})


async def _service_state(client: Client, key: Key) -> ServiceState:
    try:
        await client.get(Service, key)
        found = await client.list(_SLICES, key.namespace, labels=f"kubernetes.io/service-name={key.name}")
    except NotFoundError:
        return ServiceState(exists=False)
    except ApiError:
        return ServiceState(exists=True)
    endpoints = [endpoint for one in found for endpoint in one.get("endpoints") or ()]
    # Source: discovery/v1/types.go, EndpointConditions: nil means true.
    ready = sum((endpoint.get("conditions") or {}).get("ready") is not False for endpoint in endpoints)
    return ServiceState(exists=True, ready=ready)


async def _read_policy(client: Client, obj: Unstructured, events: Sequence[Event], now: datetime) -> Explanation:
    found = await list_or_nothing(client, _BINDINGS, "")
    return explain_policy(obj, [one for one in found if (one.get("spec") or {}).get("policyName") == obj.metadata.name])


_ADMISSION = "admissionregistration.k8s.io"
_READERS: Mapping[tuple[str, str], Reader] = {
    ("", "pods"): _read_pod,
    ("", "namespaces"): _read_namespace,
    ("", "nodes"): _read_node,
    **{("apps", plural): _read_workload for plural in ("deployments", "replicasets", "statefulsets", "daemonsets")},
    **{(_ADMISSION, f"{plural}webhookconfigurations"): _read_webhooks for plural in ("validating", "mutating")},
    (_ADMISSION, "validatingadmissionpolicies"): _read_policy,
}
# Those whose explanations say what the conditions say.
_CONDITIONS_TOLD = frozenset({"pods", "namespaces", "nodes"})
