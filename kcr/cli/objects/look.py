"""Reads why an object is where it is, from the API server: the explanation, its conditions and its events."""

import shlex
from collections.abc import Sequence
from datetime import datetime
from functools import reduce
from typing import NamedTuple

import msgspec

from kcr.api.core import Event
from kcr.api.explanation import Code, Explanation, merged, merged_with_own
from kcr.api.meta import Condition, Key
from kcr.cli.objects.absence import explain_absence
from kcr.cli.objects.inside import Inside
from kcr.cli.objects.kinds.controllers import findings
from kcr.cli.objects.kinds.read import read_object
from kcr.cli.objects.kinds.webhooks import name_refuser
from kcr.cli.objects.screen import condensed
from kcr.cli.target import ObjectName
from kcr.client import Client
from kcr.client.explainers import Explainer
from kcr.client.pod_context import last_seen
from kcr.controller.gates.pause import PAUSED
from kcr.errors import ForbiddenError, NotFoundError

# So many events are shown, the latest.
_EVENTS = 4


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
        own = inside.explanation
        explanation = explanation if own is None else merged_with_own(own, explanation)
        explanation = reduce(merged, findings(inside), explanation)
    explanation = await name_refuser(client, explanation)
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
    return tuple(sorted(found, key=last_seen))


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
