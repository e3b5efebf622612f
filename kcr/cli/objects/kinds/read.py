"""Reads an object and the objects that belong to it, and explains it.

Some kinds have an explanation of their own; others are explained by the fields that all kinds share: metadata and the
conditions of the status.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import reduce
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from kcr.api.conditions import conditions_of
from kcr.api.core import Event, Namespace, Pod
from kcr.api.durations import human_duration
from kcr.api.explanation import Code, Explanation, Step, ago, counted, deletion_case, merged, owner_text
from kcr.api.meta import Condition, Key, ObjectMeta, Resource, metadata_only
from kcr.api.unstructured import Unstructured, unstructured
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


# Conditions that are good when they are False; of all others False is trouble.
# Source: cli-utils/pkg/kstatus (Stalled, Reconciling); core/v1 and apps/v1 types.go.
_BAD_WHEN_TRUE = frozenset(
    {
        "Stalled", "Reconciling", "Degraded", "Failed", "ReplicaFailure", "MemoryPressure", "DiskPressure",
        "PIDPressure", "NetworkUnavailable", "DisruptionTarget", "Terminating", "NamesNotAccepted",
    }
)  # fmt: skip
# The conditions that summarize an object, and its state when one is true; the first present one counts.
_SUMMARIES: Mapping[str, str] = {
    "Ready": "ready", "Available": "available", "Established": "established", "Complete": "complete",
    "Succeeded": "done",
}  # fmt: skip
# Counts of a status, in the order in which they are shown.
_COUNTS = (
    "replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "desiredNumberScheduled", "numberReady",
    "ready", "active",
)  # fmt: skip


class _Seen(NamedTuple):
    """An object, as its explanation needs it."""

    obj: Unstructured
    spec: Any
    status: Mapping[str, Any]
    conditions: tuple[Condition, ...]
    now: datetime

    @property
    def observed(self) -> int | None:
        """The generation that its controller has observed."""
        found = self.status.get("observedGeneration")
        return found if isinstance(found, int) else None

    def find(self, kind: str) -> Condition | None:
        return next((one for one in self.conditions if one.type == kind), None)


def explain_object(obj: Unstructured, now: datetime) -> Explanation:
    """Return why an object is where it is, as far as metadata, generation and conditions show it."""
    status = obj.get("status")
    seen = _Seen(obj, obj.get("spec"), status if isinstance(status, dict) else {}, conditions_of(obj), now)
    case = next(found for rule in _CASES if (found := rule(seen)) is not None)
    return replace(
        case,
        reasons=tuple(dict.fromkeys((*case.reasons, *_troubles(seen), *owner_text(obj.metadata)))),
        wanted=_wanted(seen),
        present=_present(seen),
    )


def _deleted(seen: _Seen) -> Explanation | None:
    return deletion_case(seen.obj.resource, seen.obj.metadata, seen.now)


def _stalled(seen: _Seen) -> Explanation | None:
    found = seen.find("Stalled")
    is_stalled = found is not None and found.status == "True"
    return Explanation(Code.NOT_READY, f"is stalled{_why(found)}") if found is not None and is_stalled else None


def _ended(seen: _Seen) -> Explanation | None:
    """A Pod, for example, that is not ready because it has ended."""
    return _phase(seen) if seen.status.get("phase") in ("Succeeded", "Failed") else None


def _unobserved(seen: _Seen) -> Explanation | None:
    observed, generation = seen.observed, seen.obj.metadata.generation or 0
    if observed is None or observed >= generation:
        return None
    return Explanation(
        Code.WAITING,
        f"waits for its controller, which has not observed generation {generation}",
        steps=(Step("its controller reconciles the latest spec"),),
        reasons=(f"status.observedGeneration is {observed}: the status is that of an earlier spec",),
        remedies=("see whether its controller runs, and whether it fails",),
    )


def _summary(seen: _Seen) -> Explanation | None:
    name = next((name for name in _SUMMARIES if seen.find(name) is not None), None)
    found = seen.find(name) if name is not None else None
    if name is None or found is None:
        return None
    word = _SUMMARIES[name]
    since = _since(found.last_transition_time, seen.now)
    if found.status == "True":
        return Explanation(Code.HEALTHY, f"has been {word} for {since}")
    return Explanation(Code.NOT_READY, f"has not been {word} for {since}{_why(found)}")


def _in_trouble(seen: _Seen) -> Explanation | None:
    bad = next(filter(_is_bad, seen.conditions), None)
    if bad is not None:
        since = _since(bad.last_transition_time, seen.now)
        return Explanation(Code.NOT_READY, f"{bad.type} has been {bad.status} for {since}{_why(bad)}")
    progressing = seen.find("Progressing")
    return None if progressing is None else Explanation(Code.WAITING, f"is progressing{_why(progressing)}")


def _phase(seen: _Seen) -> Explanation | None:
    phase = seen.status.get("phase")
    message = seen.status.get("message")
    if not isinstance(phase, str) or not phase:
        return None
    detail = f": {message}" if isinstance(message, str) and message else ""
    return Explanation(Code.HEALTHY, f"is in phase {phase}{detail}")


def _silent(seen: _Seen) -> Explanation:
    created = seen.obj.metadata.creation_timestamp
    if seen.spec is None or seen.status:
        return Explanation(Code.HEALTHY, f"has existed for {_since(created, seen.now)}, and nothing suggests trouble")
    return Explanation(
        Code.NO_STATUS,
        f"has no status: no controller has written one in {_since(created, seen.now)}",
        remedies=("see whether a controller of this kind runs; some kinds have none, and no status",),
    )


# The first to hold is the headline; the last one always holds.
_CASES: tuple[Callable[[_Seen], Explanation | None], ...] = (
    _deleted, _ended, _stalled, _unobserved, _summary, _in_trouble, _phase, _silent,
)  # fmt: skip


def _wanted(seen: _Seen) -> str:
    generation = seen.obj.metadata.generation
    parts = [f"generation {generation}"] if generation else []
    replicas = seen.spec.get("replicas") if isinstance(seen.spec, dict) else None
    return ", ".join([counted(replicas, "replica"), *parts] if isinstance(replicas, int) else parts)


def _present(seen: _Seen) -> str:
    parts = [] if seen.observed is None else [f"observed generation {seen.observed}"]
    parts += [f"{name} {seen.status[name]}" for name in _COUNTS if isinstance(seen.status.get(name), int | str)]
    return ", ".join(parts)


def _troubles(seen: _Seen) -> Iterable[str]:
    """Yield the conditions that report trouble, and those that were set for an earlier spec."""
    generation = seen.obj.metadata.generation or 0
    for one in seen.conditions:
        late = one.observed_generation is not None and one.observed_generation < generation
        if _is_bad(one) or late:
            of = f", of generation {one.observed_generation}" if late else ""
            since = ago(one.last_transition_time, seen.now)
            yield f"condition {one.type} is {one.status}, {since}{of}{_why(one)}"


def _is_bad(one: Condition) -> bool:
    return one.status == ("True" if one.type in _BAD_WHEN_TRUE else "False") or one.status == "Unknown"


def _why(condition: Condition) -> str:
    text = ": ".join(filter(None, (condition.reason, " ".join(condition.message.split()))))
    return f": {text}" if text else ""


def _since(moment: datetime | None, now: datetime) -> str:
    return "an unknown time" if moment is None else human_duration(max(now - moment, timedelta()))
