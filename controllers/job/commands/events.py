"""`kcr events`: as kubectl shows them, of a Job with those of its pods."""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import click
import msgspec

from kcr.api import codec
from kcr.api.batch import CronJob, Job
from kcr.api.core import Event
from kcr.api.durations import age
from kcr.api.meta import controller_of
from kcr.cli import options as shared
from kcr.cli.completers import complete_objects
from kcr.cli.connection import connected, run_quietly
from kcr.cli.output import output_option, show, show_each, table
from kcr.cli.target import ObjectName, parse_object, resolved
from kcr.client import Client
from kcr.client.explainers import last_seen
from kcr.clock import SystemClock
from kcr.controllers.job.commands.logs import pods_of
from kcr.errors import ApiError, ForbiddenError, TransportError
from kcr.informer import ChangeHandler, Selection
from kcr.log.lines import printable
from kcr.manager import Manager

_HEADER = ("NAMESPACE", "LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")
_PAUSE_SECONDS = 0.5
_Show = Callable[[Sequence[Event]], None]


class EventQuery(NamedTuple):
    """Which events are shown: those of a namespace, about an object, of a type; empty and None mean all."""

    namespace: str
    about: ObjectName | None = None
    type: str = ""

    @property
    def fields(self) -> str:
        """Their field selector, without a Job or CronJob, for other objects belong to it."""
        found = [f"type={self.type}"] if self.type else []
        if self.about is not None and self.about.kind not in (Job, CronJob):
            found += [f"involvedObject.kind={self.about.kind.resource.kind}", f"involvedObject.name={self.about.name}"]
        return ",".join(found)


def _parse_types(ctx: click.Context, parameter: click.Parameter, text: str) -> str:
    found = {part.strip().capitalize() for part in text.split(",")} - {""}
    if not found <= {"Normal", "Warning"}:
        raise click.BadParameter(f"{text!r} is not a type: write Normal or Warning")
    return found.pop() if len(found) == 1 else ""


@click.command(
    "events",
    context_settings={"auto_envvar_prefix": "KCR"},
    epilog="Exit codes: 0, 1 when the server cannot be used, 130 after Ctrl-C, 2 on a wrong option.",
)
@shared.fleet_options
@click.option(
    "--for", "about", metavar="KIND/NAME", allow_from_autoenv=False, shell_complete=complete_objects,
    callback=lambda ctx, parameter, text: text and parse_object(text),
    help="Only events about this object, and about the Jobs and pods of a Job or CronJob.",
)  # fmt: skip
@click.option(
    "--types", metavar="TYPES", default="", allow_from_autoenv=False, callback=_parse_types,
    help="Only these types, such as Warning.",
)  # fmt: skip
@click.option("-w", "--watch", is_flag=True, allow_from_autoenv=False, help="Show further events until Ctrl-C.")
@output_option(words="Print one JSON object, or YAML; with --watch one per event.")
@click.option("--no-headers", is_flag=True, allow_from_autoenv=False, help="Print no titles of columns.")
def command(**values: Any) -> int:
    """Show events, the last at the end, as `kubectl events` does.

    But --for job/NAME also shows the events of the pods that the Job owns, and --for cronjob/NAME those of its Jobs and
    their pods. Parts that the user may not list are omitted.
    """
    return run_quietly(lambda: _events(values))


async def _events(values: Mapping[str, Any]) -> int:
    form = values["output"]
    async with connected(values) as (client, own, _):
        about = values["about"] and await resolved(client, values["about"])
        # Those about nodes may be in any namespace.
        everywhere = values["everywhere"] or (about and not about.kind.resource.namespaced)
        query = EventQuery("" if everywhere else own, about, values["types"])
        show_rows = _rows(values["everywhere"], not values["no_headers"])
        if values["watch"]:
            await follow(client, query, partial(show_each, form=form) if form else show_rows)
        found = await client.list(Event, query.namespace, fields=query.fields)
        events = _selected(found, query, await owned(client, query))
    if form:
        items = [msgspec.Raw(codec.encode(event)) for event in events]
        show({"apiVersion": "v1", "kind": "EventList", "items": items}, form)
    elif events:
        show_rows(events)
    else:
        click.echo(f"No events found{'' if everywhere else f' in {own} namespace'}.", err=True)
    return 0


async def owned(client: Client, query: EventQuery) -> set[str]:
    """Return the uids of the Jobs and pods that belong to the Job or CronJob of a query, if they may be listed."""
    about, uids = query.about, set[str]()
    if about is None or about.kind not in (Job, CronJob):
        return uids
    with suppress(ForbiddenError):
        fields = f"metadata.name={about.name}" if about.kind is Job else ""
        jobs = await client.list(Job, query.namespace, fields=fields)
        if about.kind is CronJob:
            refs = ((job, controller_of(job.metadata)) for job in jobs)
            jobs = tuple(job for job, ref in refs if ref and (ref.kind, ref.name) == ("CronJob", about.name))
        uids |= {job.metadata.uid for job in jobs}
        for job in jobs:
            uids |= {pod.metadata.uid for pod in await pods_of(job, client)}
    return uids


def _selected(events: Iterable[Event], query: EventQuery, uids: set[str]) -> list[Event]:
    if query.about is not None:
        itself = (query.about.kind.resource.kind, query.about.name)
        refs = ((one, one.involved_object) for one in events)
        events = [one for one, ref in refs if (ref.kind, ref.name) == itself or ref.uid in uids]
    return sorted(events, key=last_seen)


async def follow(client: Client, query: EventQuery, show: _Show) -> None:
    """Show events, then those that are new or happen again, until it is cancelled."""
    manager = Manager(client, random=random.Random(), namespace=query.namespace)
    manager.select(Selection(Event, query.namespace, fields=query.fields))
    news, uids, shown = asyncio.Event(), set[str](), set[str]()
    # The informer would try again without end if it may not list.
    await client.list_page(Event, query.namespace, fields=query.fields, limit=1)
    manager.informer(Event).add_handler(ChangeHandler(lambda _: news.set(), lambda _: None))
    async with manager.running():
        while True:
            news.clear()
            # First the events: the pods that they are about exist when pods are read.
            events = manager.store(Event).list()
            try:
                # Pods that are deleted meanwhile still belong to it.
                uids |= await owned(client, query)
            except (ApiError, TransportError):
                news.set()
            found = _selected(events, query, uids)
            if fresh := [one for one in found if one.metadata.resource_version not in shown]:
                show(fresh)
            shown = {one.metadata.resource_version for one in found}
            await asyncio.sleep(_PAUSE_SECONDS)
            await news.wait()


def row_of(event: Event, now: datetime) -> tuple[str, ...]:
    """Return the cells of an event.

    Source: kubectl/pkg/cmd/events/event_printer.go, printOneEvent and getInterval.
    """
    about, begun = event.involved_object, event.event_time or event.first_timestamp or event.last_seen
    first, last = (age(str(one) if one else None, now) for one in (begun, event.last_seen))
    seen = f"{last} (x{event.times} over {first})" if event.times > 1 else last
    cells = (event.metadata.namespace, seen, event.type, event.reason, f"{about.kind}/{about.name}", event.message)
    return tuple(printable(" ".join(cell.split())) for cell in cells)


def _rows(everywhere: bool, header: bool) -> _Show:
    first, titles = 0 if everywhere else 1, [_HEADER] if header else []

    def show(events: Sequence[Event]) -> None:
        now = SystemClock().now()
        head, *rows = [row[first:] for row in (*titles, *(row_of(one, now) for one in events))]
        titles.clear()
        click.echo("\n".join(table(head, rows)))

    return show
