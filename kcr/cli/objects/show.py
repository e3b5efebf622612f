"""An explanation as lines for people, and as JSON for programs."""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from kcr.api.core import Event
from kcr.api.explanation import Code, ago, in_time
from kcr.api.meta import Condition, Key
from kcr.cli.objects.inside import Inside, controllers_as_json, lines_of_controllers
from kcr.cli.objects.look import Shown
from kcr.cli.objects.screen import fitted
from kcr.cli.target import ObjectName
from kcr.client.explainers import last_seen


def lines_of(name: ObjectName, key: Key, shown: Shown, now: datetime, inside: Inside | None = None) -> Iterator[str]:
    """Yield an explanation as lines for people.

    Args:
        name: The object as the user named it.
        key: Its namespace and name.
        shown: The shown parts of it.
        now: The moment at which it was read.
        inside: Its state in its controller; None when its debug port is not known.
    """
    explanation = shown.explanation
    yield from fitted(
        f"{name.kind.resource.kind.lower()} {key}: {explanation.headline}",
        [
            ("wanted", filter(None, [explanation.wanted])),
            ("present", filter(None, [explanation.present])),
            ("next", (f"{_when(step.at, now)}{step.text}" for step in explanation.steps)),
            ("why", explanation.reasons),
            ("remedy", explanation.remedies),
            (
                "controller",
                ()
                if inside is None
                else lines_of_controllers(inside, has_ended=explanation.code in (Code.FINISHED, Code.FAILED)),
            ),
            ("conditions", (_condition(one, now) for one in shown.conditions)),
            ("events", (_event(one, now) for one in shown.events)),
        ],
    )


def _when(moment: datetime | None, now: datetime) -> str:
    return "" if moment is None else f"{in_time(moment, now)}: "


def _condition(condition: Condition, now: datetime) -> str:
    reason = f" ({condition.reason})" if condition.reason else ""
    return f"{condition.type}{reason}, {ago(condition.last_transition_time, now)}"


def _event(event: Event, now: datetime) -> str:
    times = f" (x{event.times})" if event.times > 1 else ""
    return f"{ago(last_seen(event), now):<9} {event.type} {event.reason}: {' '.join(event.message.split())}{times}"


def as_json(name: ObjectName, key: Key, shown: Shown, inside: Inside | None = None) -> dict[str, object]:
    """Return an explanation as one JSON object.

    Args:
        name: The object as the user named it.
        key: Its namespace and name.
        shown: The shown parts of it.
        inside: Its state in its controller, the array `controller`; None when its debug port is not known.
    """
    about = {"kind": name.kind.resource.kind, "namespace": key.namespace, "name": key.name, "exists": shown.exists}
    events = [
        {"type": one.type, "reason": one.reason, "message": one.message, "count": one.times, "lastSeen": last_seen(one)}
        for one in shown.events
    ]
    conditions = [{"type": one.type, "reason": one.reason, "message": one.message} for one in shown.conditions]
    return {
        **about,
        **msgspec.structs.asdict(shown.explanation),
        "controller": list(controllers_as_json(inside)),
        "conditions": conditions,
        "events": events,
    }
