"""`kcr explain`: why a Job or CronJob is where it is, and what happens next."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import click
import msgspec

from kcr.api.batch import Job
from kcr.api.core import Event
from kcr.api.explanation import Explanation, ago, in_time
from kcr.api.meta import Condition, Key
from kcr.cli import options as shared
from kcr.cli.completion import complete_jobs
from kcr.cli.objects.connection import connected, run_quietly
from kcr.cli.objects.target import ObjectName, parse_object
from kcr.client import Client
from kcr.clock import SystemClock
from kcr.controller.guards.pause import PAUSED
from kcr.controllers.cronjob.explanation import explain_cronjob
from kcr.controllers.job.explanation import explain_job
from kcr.errors import ForbiddenError, NotFoundError

# So many events are shown, the latest.
_EVENTS = 4
_WIDTH = 12


class Shown(NamedTuple):
    """What is shown of an object: why it is where it is, its conditions that hold, and its latest events.

    Attributes:
        explanation: Why it is where it is.
        conditions: Those that hold.
        events: The latest, the newest last.
        exists: Whether it is there.
    """

    explanation: Explanation
    conditions: tuple[Condition, ...]
    events: tuple[Event, ...]
    exists: bool = True


@click.command(
    "explain",
    context_settings={"auto_envvar_prefix": "KCR"},
    epilog="Exit codes: 0, 1 when the object is not there or the server cannot be used, 2 on a wrong option.",
)
@click.argument(
    "name", metavar="job/NAME|cronjob/NAME", callback=lambda ctx, parameter, text: parse_object(text),
    shell_complete=complete_jobs,
)  # fmt: skip
@shared.object_options
@click.option("-o", "--output", type=click.Choice(["json"]), help="Print one JSON object.")
def command(name: ObjectName, output: str | None, **values: Any) -> int:
    """Explain why a Job or CronJob is where it is: what is wanted, what is there, what happens next and when.

    It makes the decision that the controller would make, from what the API server knows; nothing is written.
    """
    return run_quietly(lambda: _explain(name, output, values))


async def _explain(name: ObjectName, output: str | None, values: Mapping[str, Any]) -> int:
    async with connected(values) as (client, namespace):
        key, now = Key(namespace, name.name), SystemClock().now()
        shown = await look(client, name, key, now)
    if output == "json":
        click.echo(msgspec.json.encode(_as_json(name, key, shown)))
    else:
        click.echo("\n".join(lines_of(name, key, shown, now)))
    return 0 if shown.exists else 1


async def look(client: Client, name: ObjectName, key: Key, now: datetime) -> Shown:
    """Read what is to be shown of an object; it need not exist.

    Args:
        client: Where to read.
        name: The object as the user named it.
        key: Its namespace and name.
        now: The moment to judge at.
    """
    events = await _events(client, name, key)
    try:
        if name.kind is Job:
            job, explanation = await explain_job(client, key, events, now)
            found = job.metadata, job.status.conditions
        else:
            cron, explanation = await explain_cronjob(client, key, now)
            found = cron.metadata, ()
    except NotFoundError:
        return Shown(_absence(name.kind.resource.plural, events), (), events[-_EVENTS:], exists=False)
    metadata, conditions = found
    # Those of an earlier object of the same name are not about this one.
    about = tuple(event for event in events if event.involved_object.uid == metadata.uid)
    if metadata.annotations.get(PAUSED) == "true":
        explanation = _pause(name, key, explanation)
    return Shown(explanation, tuple(one for one in conditions if one.status == "True"), about[-_EVENTS:])


async def _events(client: Client, name: ObjectName, key: Key) -> tuple[Event, ...]:
    """Return the events about objects of this name, the latest last; none when they may not be read."""
    fields = f"involvedObject.kind={name.kind.resource.kind},involvedObject.name={key.name}"
    try:
        found = await client.list(Event, key.namespace, fields=fields)
    except ForbiddenError:
        return ()
    return tuple(sorted(found, key=_seen_at))


def _seen_at(event: Event) -> datetime:
    moments = (event.last_timestamp, event.event_time, event.first_timestamp, event.metadata.creation_timestamp)
    return next((moment for moment in moments if moment is not None), datetime.fromtimestamp(0, UTC))


def _absence(plural: str, events: Sequence[Event]) -> Explanation:
    """Return the explanation of an object that is not there."""
    remedy = f"name its namespace with -n, or see `kubectl get {plural} -A`"
    if not events:
        return Explanation(headline="is not there, and no event is about it", remedies=(remedy,))
    reason = "events about one of this name are left: it was deleted, by a user, its owner's deletion or its TTL"
    return Explanation(headline="is not there any more", reasons=(reason,), remedies=(remedy,))


def _pause(name: ObjectName, key: Key, otherwise: Explanation) -> Explanation:
    """Return the explanation of a paused object: what would be true without the pause waits for its end."""
    command = f"kubectl -n {key.namespace} annotate {name.kind.resource.kind.lower()} {key.name} {PAUSED}-"
    return msgspec.structs.replace(
        otherwise,
        headline="is paused: no controller of kcr reconciles it",
        next=(),
        reasons=(
            f"the annotation {PAUSED} is true; kube-controller-manager does not heed it",
            f"without the pause: {otherwise.headline}",
            *otherwise.reasons,
        ),
        remedies=(f"to end the pause: {command}", *otherwise.remedies),
    )


def lines_of(name: ObjectName, key: Key, shown: Shown, now: datetime) -> Iterator[str]:
    """Yield an explanation as lines for people.

    Args:
        name: The object as the user named it.
        key: Its namespace and name.
        shown: What is shown of it.
        now: The moment at which it was looked at.
    """
    explanation = shown.explanation
    yield f"{name.kind.resource.kind.lower()} {key}: {explanation.headline}"
    yield from _rows("wanted", filter(None, [explanation.wanted]))
    yield from _rows("present", filter(None, [explanation.present]))
    yield from _rows("next", (f"{_when(step.at, now):<9} {step.text}".strip() for step in explanation.next))
    yield from _rows("why", explanation.reasons)
    yield from _rows("remedy", explanation.remedies)
    yield from _rows("conditions", (_condition(one, now) for one in shown.conditions))
    yield from _rows("events", (_event(one, now) for one in shown.events))


def _rows(title: str, texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield f"  {title:<{_WIDTH}}{text}"
        title = ""


def _when(moment: datetime | None, now: datetime) -> str:
    return "then" if moment is None else in_time(moment, now)


def _condition(condition: Condition, now: datetime) -> str:
    reason = f" ({condition.reason})" if condition.reason else ""
    return f"{condition.type}{reason}, {ago(condition.last_transition_time, now)}"


def _event(event: Event, now: datetime) -> str:
    times = f" (x{event.count})" if event.count > 1 else ""
    return f"{ago(_seen_at(event), now):<9} {event.type} {event.reason}: {' '.join(event.message.split())}{times}"


def _as_json(name: ObjectName, key: Key, shown: Shown) -> dict[str, object]:
    about = {"kind": name.kind.resource.kind, "namespace": key.namespace, "name": key.name, "exists": shown.exists}
    events = [
        {"type": one.type, "reason": one.reason, "message": one.message, "count": one.count, "lastSeen": _seen_at(one)}
        for one in shown.events
    ]
    conditions = [{"type": one.type, "reason": one.reason, "message": one.message} for one in shown.conditions]
    return {**about, **msgspec.structs.asdict(shown.explanation), "conditions": conditions, "events": events}
