"""Reads an object of a kind with an explanation of its own, and the objects that belong to it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import reduce
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from kcr.api.conditions import conditions_of
from kcr.api.core import Event, Namespace, Pod
from kcr.api.explanation import Code, Explanation, merged, owner_text
from kcr.api.meta import Condition, Key, ObjectMeta, Resource, metadata_only
from kcr.api.unstructured import Unstructured, unstructured
from kcr.cli.objects.generic import explain_object
from kcr.cli.objects.kinds import webhooks
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


R = TypeVar("R", bound=Resource)

# So many of each kind are explained.
_MOST = 5
# The states of a dependent that delay its owner.
_TROUBLES = (Code.FAILED, Code.PODS_NOT_READY, Code.REFUSED, Code.NO_CONTROLLER)


async def with_dependents(
    client: Client, obj: Unstructured, explanation: Explanation, now: datetime, explainers: Sequence[Explainer]
) -> Explanation:
    """Return the explanation of a custom resource, with the trouble of the objects it owns, if there is any.

    Args:
        client: Where to read.
        obj: The object; only kinds of a user's own are followed, for the others own nothing of the kind.
        explanation: The explanation of the object itself.
        now: The moment to judge at.
        explainers: Those of plugins, whose kinds are followed.
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
    for explainer in (one for one in explainers if one.kind.resource.namespaced):
        for one in _newest(obj, await list_or_nothing(client, explainer.kind, namespace)):
            with suppress(ExplainerError):
                yield one, await explainer(client, one, (), now)


def _newest(owner: Resource, found: Iterable[R]) -> list[R]:
    """Return the newest of the objects that another one owns: each costs requests, and old ones matter less."""
    owned = [one for one in found if any(ref.uid == owner.metadata.uid for ref in one.metadata.owner_references)]
    return sorted(owned, key=lambda one: str(one.metadata.creation_timestamp), reverse=True)[:_MOST]
