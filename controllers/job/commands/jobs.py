"""`kcr jobs`: all Jobs of a namespace or cluster by state and cause."""

import asyncio
import random
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import click
import msgspec

from kcr.api.batch import Job
from kcr.api.core import Event, Pod
from kcr.cli import options as shared
from kcr.cli.connection import connected, run_quietly
from kcr.cli.output import table
from kcr.client import Client
from kcr.clock import Clock, SystemClock
from kcr.controllers.job.commands.job_progress import ChangeHandler
from kcr.controllers.job.commands.job_table import (
    HEADER,
    JobEvidence,
    JobRow,
    changed,
    needs_events,
    needs_pods,
    rows_of,
    summary_of,
)
from kcr.errors import ApiError, ForbiddenError, TransportError
from kcr.informer import Selection
from kcr.log.lines import printable
from kcr.manager import Manager

# Pods of Jobs.
_LABEL = "batch.kubernetes.io/job-name"
# How often a watched table is read again: pods and events change without their Job.
_SECONDS = 2.0
_HOME, _CLEAR = "\x1b[H", "\x1b[J"


@click.command(
    "jobs",
    context_settings={"auto_envvar_prefix": "KCR"},
    epilog="Exit codes: 0, 1 when the server cannot be used, 130 after Ctrl-C, 2 on a wrong option.",
)
@shared.fleet_options
@shared.selector_option("Only Jobs with these labels, such as app=web.")
@click.option("-w", "--watch", is_flag=True, allow_from_autoenv=False, help="Show changes until Ctrl-C.")
@click.option("-o", "--output", type=click.Choice(["json"]), help="Print one JSON object, with --watch one per change.")
def command(**values: Any) -> int:
    """Show all Jobs by state, cause, progress and age, those that need attention first.

    The states and causes are those of the metric kcr_jobs, judged from Jobs, pods that have not started, and events.
    Parts that the user may not list are omitted: a cause may be missing then. `kcr explain` says more about one Job.
    """
    return run_quietly(lambda: _jobs(values))


async def _jobs(values: Mapping[str, Any]) -> int:
    is_json = values["output"] == "json"
    labels = values["selector"]
    async with connected(values) as (client, own, _):
        namespace = "" if values["everywhere"] else own
        clock = SystemClock()
        if values["watch"]:
            show = _json_changes if is_json else _redraw if sys.stdout.isatty() else _line_changes
            await follow(client, namespace, labels, clock, show(clock))
            return 0
        jobs = await client.list(Job, namespace, labels=labels)
        rows = rows_of(jobs, await read_evidence(client, namespace, jobs), clock.now())
    if is_json:
        click.echo(msgspec.json.encode({"summary": summary_of(rows), "jobs": rows}))
    else:
        now = clock.now()
        if rows:
            click.echo("\n".join(map(printable, table(HEADER, [row.cells(now) for row in rows]))))
        click.echo(summary_of(rows), err=True)
    return 0


async def read_evidence(client: Client, namespace: str, jobs: Iterable[Job]) -> JobEvidence:
    """Read the facts that Jobs alone do not show; those that the user may not read are left out.

    Args:
        client: Where to read.
        namespace: The namespace of the Jobs; empty for all.
        jobs: The Jobs that are shown: nothing is read that none of them needs.
    """
    jobs = tuple(jobs)
    pods: tuple[Pod, ...] = ()
    events: tuple[Event, ...] = ()
    if any(map(needs_pods, jobs)):
        fields = "status.phase!=Succeeded,status.phase!=Failed"
        with suppress(ForbiddenError):
            pods = await client.list(Pod, namespace, labels=_LABEL, fields=fields)
    if any(map(needs_events, jobs)):
        with suppress(ForbiddenError):
            events = await client.list(Event, namespace, fields="involvedObject.kind=Job,reason=FailedCreate")
    return JobEvidence(pods, events)


async def follow(
    client: Client, namespace: str, labels: str, clock: Clock, show: Callable[[Sequence[JobRow]], None]
) -> None:
    """Show Jobs again and again, until it is cancelled.

    Args:
        client: Where to read; the Jobs are watched, their pods and events read again every two seconds.
        namespace: The namespace of the Jobs; empty for all.
        labels: A label selector; empty for all.
        clock: The time for ages.
        show: Called with all rows.
    """
    manager = Manager(client, random=random.Random(), namespace=namespace)
    manager.select(Selection(Job, namespace, labels=labels))
    news, known = asyncio.Event(), JobEvidence()
    # The informer would try again without end if it may not list.
    await client.list_page(Job, namespace, labels=labels, limit=1)
    manager.informer(Job).add_handler(ChangeHandler(lambda _: news.set(), lambda _: news.set()))
    async with manager.running():
        while True:
            news.clear()
            jobs = manager.store(Job).list()
            # A table that is watched survives an outage of the server, as the watch of its Jobs does.
            with suppress(ApiError, TransportError):
                known = await read_evidence(client, namespace, jobs)
            show(rows_of(jobs, known, clock.now()))
            # At most one picture in a while, however many changes there are.
            await asyncio.sleep(_SECONDS / 4)
            try:
                async with asyncio.timeout(_SECONDS):
                    await news.wait()
            except TimeoutError:
                pass


def _line_changes(clock: Clock) -> Callable[[Sequence[JobRow]], None]:
    shown: list[JobRow] = []

    def show(rows: Sequence[JobRow]) -> None:
        now = clock.now()
        for row in changed(shown, rows):
            click.echo(printable("  ".join(row.cells(now))))
        shown[:] = rows

    return show


def _json_changes(clock: Clock) -> Callable[[Sequence[JobRow]], None]:
    shown: list[JobRow] = []

    def show(rows: Sequence[JobRow]) -> None:
        for row in changed(shown, rows):
            click.echo(msgspec.json.encode(row))
        shown[:] = rows

    return show


def _redraw(clock: Clock) -> Callable[[Sequence[JobRow]], None]:

    def show(rows: Sequence[JobRow]) -> None:
        size, now = shutil.get_terminal_size(), clock.now()
        lines = list(table(HEADER, [row.cells(now) for row in rows[: max(size.lines - 3, 1)]]))
        text = "\n".join(printable(line)[: size.columns] for line in (summary_of(rows), *lines))
        click.echo(f"{_HOME}{text}{_CLEAR}")

    return show
