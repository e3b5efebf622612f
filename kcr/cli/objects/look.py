"""Reads why an object is where it is, from the API server: the explanation, its conditions and its events.

An object that does not exist is explained by events about its name, and by pods that a Job has left behind.
"""

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import reduce
from typing import NamedTuple

import msgspec

from kcr.api.batch import Job
from kcr.api.core import Event, Namespace, Pod
from kcr.api.explanation import Code, Explanation, ago, counted, merged, merged_with_own
from kcr.api.meta import Condition, Key, Resource, controller_of
from kcr.cli.connection import near_objects
from kcr.cli.objects.inside import Inside
from kcr.cli.objects.kinds.controllers import findings
from kcr.cli.objects.kinds.nodes import explain_lost_node
from kcr.cli.objects.kinds.read import pods_of_node, read_object
from kcr.cli.objects.kinds.webhooks import name_refuser
from kcr.cli.objects.screen import condensed
from kcr.cli.objects.shards import name_holder, seen_by
from kcr.cli.target import ObjectName
from kcr.client import Client
from kcr.client.explainers import Explainer, last_seen
from kcr.controller.gates import PAUSED
from kcr.errors import ForbiddenError, NotFoundError
from kcr.informer.store import version_of

# So many events are shown, the latest.
_EVENTS = 4

# The events with which a Job's controller tells how the Job ended, and how it did.
_ENDS: Mapping[str, str] = {
    "Completed": "had completed",
    **{
        reason: f"had failed ({reason})"
        for reason in (
            "BackoffLimitExceeded", "DeadlineExceeded", "PodFailurePolicy", "MaxFailedIndexesExceeded", "FailedIndexes",
        )
    },
}  # fmt: skip
_NAMED = 3
# Of a Job's pods, the Job's name.
_LABEL = "batch.kubernetes.io/job-name"


class Shown(NamedTuple):
    """The shown parts of an object: its explanation, its conditions that hold, and its latest events.

    Attributes:
        explanation: Why it is where it is.
        conditions: Those that hold.
        events: The latest, the newest last.
        exists: Whether it exists.
    """

    explanation: Explanation
    conditions: tuple[Condition, ...]
    events: tuple[Event, ...]
    exists: bool = True


async def look(
    client: Client, name: ObjectName, key: Key, now: datetime, explainers: Sequence[Explainer],
    inside: Inside | None = None,
) -> Shown:  # fmt: skip
    """Read the parts of an object that are shown; it need not exist.

    Args:
        client: Where to read.
        name: The object as the user named it.
        key: Its namespace and name.
        now: The moment to judge at.
        explainers: Those of plugins.
        inside: Its state in the process of its controllers; None when that is not known.
    """
    events = await _events(client, name, key)
    try:
        found = await read_object(client, name.kind, key, events, now, explainers)
    except NotFoundError:
        gone = await explain_absence(client, name.kind, key, events, now)
        return Shown(gone, (), condensed(events)[-_EVENTS:], exists=False)
    # Those of an earlier object of the same name are not about this one.
    about = tuple(event for event in events if event.involved_object.uid in ("", found.metadata.uid))
    explanation = found.explanation
    if inside is not None:
        inside = seen_by(inside, found.metadata)
        own = inside.explanation
        explanation = explanation if own is None else merged_with_own(own, explanation)
        explanation = reduce(merged, findings(inside), explanation)
    explanation = await name_refuser(client, explanation)
    explanation = await name_holder(client, name.kind, found.metadata, explanation, now, inside)
    if found.metadata.annotations.get(PAUSED) == "true":
        explanation = _pause(name, key, explanation)
    return Shown(
        explanation, tuple(one for one in found.conditions if one.status == "True"), condensed(about)[-_EVENTS:]
    )


async def _events(client: Client, name: ObjectName, key: Key) -> tuple[Event, ...]:
    """Return the events about objects of this name, the latest last; none when they may not be read."""
    fields = f"involvedObject.kind={name.kind.resource.kind},involvedObject.name={key.name}"
    try:
        found = await client.list(Event, key.namespace, fields=fields)
    except ForbiddenError:
        return ()
    # Those of one moment in the order in which they were written.
    return tuple(sorted(found, key=lambda one: (last_seen(one), version_of(one.metadata.resource_version))))


def _pause(name: ObjectName, key: Key, otherwise: Explanation) -> Explanation:
    """Return the explanation of a paused object; the explanation without the pause becomes a reason."""
    place = f" -n {key.namespace}" if key.namespace else ""
    command = f"kubectl{place} annotate {name.kind.resource.kind.lower()} {shlex.quote(key.name)} {PAUSED}-"
    return msgspec.structs.replace(
        otherwise,
        headline="is paused: no controller of kcr reconciles it",
        steps=(),
        reasons=(
            f"the annotation {PAUSED} is true; kube-controller-manager does not heed it",
            f"without the pause: {otherwise.headline}",
            *otherwise.reasons,
        ),
        remedies=(f"to end the pause: {command}", *otherwise.remedies),
        code=Code.PAUSED,
    )


async def explain_absence(
    client: Client, kind: type[Resource], key: Key, events: Sequence[Event], now: datetime
) -> Explanation:
    """Return the explanation of an object that does not exist.

    Args:
        client: Reads its remaining objects.
        kind: Its kind.
        key: Its namespace and name.
        events: Those about objects of its name, the latest last.
        now: The moment to judge at.
    """
    place = kind.resource
    if (place.group, place.plural) == ("", "nodes"):
        return explain_lost_node(key, await pods_of_node(client, key.name))
    near = await near_objects(client, kind, key)
    elsewhere = f"to look in all namespaces: kubectl get {place.plural} -A --field-selector metadata.name={key.name}"
    if not place.namespaced:
        elsewhere = f"to see those that exist: kubectl get {place.plural}"
    elif await _has_no_namespace(client, key.namespace):
        names = "name another namespace with -n: kubectl get namespaces"
        return Explanation(
            Code.NOT_FOUND, f"does not exist, nor does the namespace {key.namespace}", remedies=(names, elsewhere)
        )
    left = await _pods_left(client, key) if kind is Job else ()
    if not events and not left:
        reason = "no event is about it: it never existed, or was deleted"
        alike = (f"is it {near}?",) if near else ()
        return Explanation(Code.NOT_FOUND, "does not exist", reasons=(reason,), remedies=(*alike, elsewhere))
    end = next((event for event in reversed(events) if event.reason in _ENDS), None)
    headline, reason = "no longer exists", "it was deleted, by a user or with its owner"
    if kind is Job and end is not None:
        headline = f"{headline}: it {_ENDS[end.reason]}"
        reason = (
            f"it ended {ago(end.last_seen, now)}, and was deleted since: by its ttlSecondsAfterFinished, "
            "its CronJob's history limits, a user, or with its owner"
        )
    facts, remedies = _remains(left, key)
    return Explanation(Code.NOT_FOUND, headline, reasons=(reason, *facts), remedies=(*remedies, elsewhere))


async def _has_no_namespace(client: Client, namespace: str) -> bool:
    try:
        await client.get(Namespace, Key("", namespace))
    except NotFoundError:
        return True
    except ForbiddenError:
        pass
    return False


async def _pods_left(client: Client, key: Key) -> tuple[Pod, ...]:
    try:
        return tuple(await client.list(Pod, key.namespace, labels=f"{_LABEL}={key.name}"))
    except ForbiddenError:
        return ()


def _remains(pods: Sequence[Pod], key: Key) -> tuple[list[str], list[str]]:
    """Return the facts about pods that a Job has left behind, and how to remove them."""
    orphans = [pod for pod in pods if controller_of(pod.metadata) is None and not pod.metadata.finalizers]
    held = [pod for pod in pods if pod.metadata.finalizers]
    facts, remedies = [], []
    if orphans:
        facts.append(f"{counted(len(orphans), 'pod')} of it {'is' if len(orphans) == 1 else 'are'} left, orphaned")
        remedies.append(f"to delete them: kubectl -n {key.namespace} delete pod -l {_LABEL}={key.name}")
    for pod in held[:_NAMED]:
        facts.append(f"pod {pod.metadata.name} of it stays for its finalizers: {', '.join(pod.metadata.finalizers)}")
    if held:
        remedies.append("see whether a Job controller runs: it removes its finalizer from pods without a Job")
        patch = f'patch pod {held[0].metadata.name} -p \'{{"metadata":{{"finalizers":null}}}}\''
        remedies.append(f"or remove them by hand: kubectl -n {key.namespace} {patch}")
    return facts, remedies
