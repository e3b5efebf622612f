"""Reads an object of a kind with an explanation of its own, and the objects that belong to it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import reduce
from typing import NamedTuple

from msgspec.structs import replace

from kcr.api.conditions import conditions_of
from kcr.api.core import Event, Namespace, Pod
from kcr.api.explanation import Explanation, merged
from kcr.api.meta import Condition, Key, ObjectMeta, Resource, metadata_only
from kcr.api.unstructured import Unstructured, unstructured
from kcr.cli.objects.generic import explain_object
from kcr.cli.objects.kinds import webhooks
from kcr.cli.objects.kinds.dependents import with_dependents
from kcr.cli.objects.kinds.namespaces import Held, explain_namespace, remaining_resources
from kcr.cli.objects.kinds.nodes import explain_node
from kcr.client import Client
from kcr.client.discovery import all_served_kinds, find_kind
from kcr.client.explainers import Explainer, ExplainerError, list_or_nothing
from kcr.errors import ForbiddenError

# So many resources of a namespace are searched for objects that block its deletion, and so many objects of each.
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
    client: Client, kind: type[Resource], key: Key, events: Sequence[Event], now: datetime,
    explainers: Sequence[Explainer],
) -> ReadObject:  # fmt: skip
    """Read an object and explain its state: by the explainers of its kind, else by the fields that all kinds share.

    Args:
        client: Where to read.
        kind: Its kind.
        key: Its namespace and name.
        events: Those about objects of its name, the latest last.
        now: The moment to judge at.
        explainers: Those of plugins.

    Raises:
        NotFoundError: It does not exist.
    """
    place = kind.resource
    whole = unstructured(place.api_version, place.kind, plural=place.plural, namespaced=place.namespaced)
    obj = await client.get(whole, key)
    about = tuple(event for event in events if event.involved_object.uid in ("", obj.metadata.uid))
    reader = _READERS.get((place.group, place.plural), _read_other)
    found: list[Explanation] = []
    failures: list[str] = []
    for explainer in explainers:
        if (explainer.kind.resource.group, explainer.kind.resource.plural) == (place.group, place.plural):
            try:
                found.append(await explainer(client, await client.get(explainer.kind, key), about, now))
            except ExplainerError as error:
                failures.append(str(error))
    explanation = reduce(merged, found or [await reader(client, obj, about, now)])
    explanation = replace(explanation, reasons=(*explanation.reasons, *failures))
    conditions = () if place.display in _CONDITIONS_SHOWN else conditions_of(obj)
    return ReadObject(obj.metadata, conditions, await with_dependents(client, obj, explanation, now, explainers))


async def _read_other(client: Client, obj: Unstructured, events: Sequence[Event], now: datetime) -> Explanation:
    return explain_object(obj, now)


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


_READERS: Mapping[tuple[str, str], Reader] = {
    ("", "namespaces"): _read_namespace,
    ("", "nodes"): _read_node,
    **{
        (webhooks.GROUP, f"{plural}webhookconfigurations"): webhooks.read_webhooks
        for plural in ("validating", "mutating")
    },
    (webhooks.GROUP, "validatingadmissionpolicies"): webhooks.read_policy,
}
# Kinds whose explanations contain the conditions.
_CONDITIONS_SHOWN = frozenset({"pods", "namespaces", "nodes"})
