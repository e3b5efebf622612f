"""`kcr jobs`: all Jobs of a namespace or cluster by state and cause."""

import shutil
import sys
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import click
import msgspec

from kcr.api.batch import COMPLETE, FAILED, Job, finished_type, is_finished
from kcr.api.conditions import find_condition
from kcr.api.core import Event, Pod
from kcr.api.durations import human_duration
from kcr.api.meta import controller_of
from kcr.cli import options as shared
from kcr.cli.connection import connected, run_quietly
from kcr.cli.output import output_option, show, show_each, table
from kcr.cli.target import ObjectName
from kcr.client import Client
from kcr.clock import Clock, SystemClock
from kcr.controllers.job.decisions.situation import (
    BACKING_OFF,
    CANNOT_START,
    ENDS,
    PENDING,
    RUNNING,
    SUSPENDED,
    TERMINATING,
    JobSituation,
    situation_from_outside,
)
from kcr.errors import ApiError, ForbiddenError, TransportError
from kcr.log.lines import printable

# The order of the rows.
ORDER = (CANNOT_START, BACKING_OFF, TERMINATING, PENDING, RUNNING, SUSPENDED, *reversed(ENDS.values()))
HEADER = ("NAMESPACE", "NAME", "STATE", "CAUSE", "DONE", "ACTIVE", "FAILED", "AGE")
WIDE_HEADER = (*HEADER, "DURATION", "OWNER")
_COLORS = {CANNOT_START: "red", BACKING_OFF: "red", ENDS[FAILED]: "red", ENDS[COMPLETE]: "green",
           TERMINATING: "yellow", PENDING: "yellow"}  # fmt: skip
# A Job whose pods are refused is retried once a minute at least, but its event is not always written.
_LATELY = timedelta(minutes=10)
_RANKS = {state: rank for rank, state in enumerate(ORDER)}


class JobEvidence(NamedTuple):
    """Facts about Jobs beyond themselves, as far as they could be read.

    Attributes:
        pods: Pods of Jobs that have not ended.
        events: Events of Jobs whose pods were refused.
    """

    pods: Sequence[Pod] = ()
    events: Sequence[Event] = ()


class JobRow(msgspec.Struct, frozen=True, rename="camel"):
    """A Job as a row.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        state: Its state; see `kcr.controllers.job.decisions.situation`.
        cause: The cause of the state; empty for none.
        completions: Successes it needs; None for a work queue, whose first success is enough.
        succeeded: Pods that succeeded.
        active: Pods that run or may still run.
        failed: Pods that failed.
        created: When it was created.
        started: When it was started, or resumed; None before.
        ended: When it was complete or failed; None before.
        owner: The controller that made it, such as `CronJob/report`; empty for none.
    """

    namespace: str
    name: str
    state: str
    cause: str
    completions: int | None
    succeeded: int
    active: int
    failed: int
    created: datetime | None
    started: datetime | None
    ended: datetime | None
    owner: str

    def cells(self, now: datetime, *, wide: bool = False) -> tuple[str, ...]:
        """Return the cells of the table, under `HEADER` or `WIDE_HEADER`."""
        goal = "" if self.completions is None else f"/{self.completions}"
        cells = (
            self.namespace, self.name, self.state.replace("_", " "), self.cause or "-", f"{self.succeeded}{goal}",
            str(self.active), str(self.failed), _between(self.created, now),
        )  # fmt: skip
        return (*cells, _between(self.started, self.ended or now), self.owner or "-") if wide else cells


# What rows are sorted by, by the names of the columns: the largest numbers and the oldest first.
SORTS: Mapping[str, Callable[[JobRow], Any]] = {
    "namespace": lambda row: (row.namespace, row.name),
    "name": lambda row: (row.name, row.namespace),
    "done": lambda row: -row.succeeded,
    "active": lambda row: -row.active,
    "failed": lambda row: -row.failed,
    "age": lambda row: (row.created is None, row.created),
}


def _between(since: datetime | None, until: datetime) -> str:
    return "-" if since is None else human_duration(max(until - since, timedelta()))


def lines_of(rows: Sequence[JobRow], now: datetime, *, wide: bool = False, columns: int | None = None) -> Iterator[str]:
    """Yield a table of Jobs as lines of at most so many columns, each state in its colour, for `click.echo`."""
    cells = table(WIDE_HEADER if wide else HEADER, [row.cells(now, wide=wide) for row in rows])
    header, *lines = map(printable, cells)
    yield header[:columns]
    start = header.index("STATE")
    for row, full in zip(rows, lines, strict=True):
        line, end = full[:columns], start + len(row.state)
        yield line[:start] + click.style(line[start:end], fg=_COLORS.get(row.state)) + line[end:]


def rows_of(jobs: Iterable[Job], known: JobEvidence, now: datetime) -> list[JobRow]:
    """Return Jobs as rows, by state, namespace and name."""
    pods: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in known.pods:
        if (owner := controller_of(pod.metadata)) is not None:
            pods[owner.uid].append(pod)
    refusals = {
        event.involved_object.uid: event.message
        for event in known.events
        if event.last_seen is not None and now - event.last_seen < _LATELY
    }
    rows = []
    for job in jobs:
        uid = job.metadata.uid
        found = situation_from_outside(job, pods.get(uid, ()), now, refusal=refusals.get(uid, ""))
        rows.append(_row(job, found))
    return sorted(rows, key=lambda row: (_RANKS[row.state], row.namespace, row.name))


def needs_pods(job: Job) -> bool:
    """Return whether only the pods of a Job show its state: some may be active, and none is ready."""
    return not is_finished(job) and job.status.active > 0 and not job.status.ready


def needs_events(job: Job) -> bool:
    """Return whether events may show why a Job has no pods."""
    return not is_finished(job) and not job.spec.suspend and job.status.active < (job.spec.parallelism or 0)


def summary_of(rows: Iterable[JobRow]) -> str:
    """Return how many Jobs are in which state: `3 Jobs: 1 cannot start (quota), 2 complete`."""
    counts: Counter[str] = Counter()
    causes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        counts[row.state] += 1
        if row.cause and row.state in (CANNOT_START, BACKING_OFF):
            causes[row.state][row.cause] += 1
    parts = []
    for state in sorted(counts, key=_RANKS.__getitem__):
        why = ", ".join(cause for cause, _ in causes[state].most_common())
        parts.append(f"{counts[state]} {state.replace('_', ' ')}{f' ({why})' if why else ''}")
    return f"{counts.total()} Jobs: {', '.join(parts)}" if parts else "no Jobs"


def changed(before: Iterable[JobRow], rows: Iterable[JobRow]) -> Iterator[JobRow]:
    """Yield the rows that are new or differ from those of before."""
    known = set(before)
    return (row for row in rows if row not in known)


def _row(job: Job, found: JobSituation) -> JobRow:
    metadata, status, owner = job.metadata, job.status, controller_of(job.metadata)
    ended = find_condition(status.conditions, finished_type(job))
    return JobRow(
        metadata.namespace, metadata.name, found.state, found.cause, job.spec.completions,
        status.succeeded, status.active, status.failed, metadata.creation_timestamp, status.start_time,
        ended.last_transition_time if ended else None, f"{owner.kind}/{owner.name}" if owner else "",
    )  # fmt: skip


# Pods of Jobs.
_LABEL = "batch.kubernetes.io/job-name"
_HOME, _CLEAR = "\x1b[H", "\x1b[J"
_Show = Callable[[list[JobRow]], None]


class _Column(click.Choice[str]):
    """A column, or the path that kubectl takes for it: `.metadata.name`."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        path = value.strip("{}").removeprefix(".metadata.")
        return super().convert({"creationTimestamp": "age"}.get(path, path), param, ctx)


@click.command(
    "jobs",
    context_settings={"auto_envvar_prefix": "KCR"},
    epilog="Exit codes: 0, 1 when the server cannot be used, 130 after Ctrl-C, 2 on a wrong option.",
)
@shared.fleet_options
@shared.selector_option("Only Jobs with these labels, such as app=web.")
@click.option("-w", "--watch", is_flag=True, allow_from_autoenv=False, help="Show changes until Ctrl-C.")
@click.option(
    "--field-selector", "fields", metavar="FIELDS", default="", allow_from_autoenv=False,
    help="Only Jobs with these fields, such as status.successful=0.",
)  # fmt: skip
@click.option(
    "--sort-by", type=_Column(["state", *SORTS]), allow_from_autoenv=False, show_default="state",
    help="Sort by a column: names from a to z, the most pods first, the youngest last.",
)  # fmt: skip
@output_option(
    "wide", "name", words="Print more columns, the names, or JSON or YAML, with --watch one object per change."
)
@shared.color_option
def command(**values: Any) -> int:
    """Show all Jobs, those that need attention first.

    The states and causes are those of the metric kcr_jobs, judged from Jobs, pods that have not started, and events.
    Parts that the user may not list are omitted: a cause may be missing then. `kcr explain` says more about one Job.
    """
    return run_quietly(lambda: _jobs(values))


async def _jobs(values: Mapping[str, Any]) -> int:
    form = values["output"]
    async with connected(values) as (client, own, _):
        namespace = "" if values["everywhere"] else own
        clock = SystemClock()
        labels, fields = values["selector"], values["fields"]
        if values["watch"]:
            # A manager takes a third as long to import as all the rest.
            from kcr.controllers.job.commands.jobs_watch import follow  # noqa: PLC0415
            from kcr.informer import Selection  # noqa: PLC0415

            selection = Selection(Job, namespace, labels=labels, fields=fields)
            redraws = form in (None, "wide") and sys.stdout.isatty()
            show_rows = _redraw(clock, form) if redraws else _changes(clock, form)
            await follow(
                client, selection, showing(client, namespace, clock, lambda rows: show_rows(_sorted(rows, values)))
            )
            return 0
        jobs = await client.list(Job, namespace, labels=labels, fields=fields)
        rows = _sorted(rows_of(jobs, await read_evidence(client, namespace, jobs), clock.now()), values)
    if form in ("json", "yaml"):
        show({"summary": summary_of(rows), "jobs": rows}, form)
    elif form == "name":
        _print_names(rows)
    else:
        if rows:
            click.echo("\n".join(lines_of(rows, clock.now(), wide=form == "wide")))
        click.echo(summary_of(rows), err=True)
    return 0


def _sorted(rows: list[JobRow], values: Mapping[str, Any]) -> list[JobRow]:
    order = SORTS.get(values["sort_by"])
    return rows if order is None else sorted(rows, key=order)


def _print_names(rows: Iterable[JobRow]) -> None:
    for row in rows:
        click.echo(ObjectName(Job, row.name))


def showing(
    client: Client, namespace: str, clock: Clock, show_rows: _Show
) -> Callable[[Sequence[Job]], Awaitable[None]]:
    """Return a function that shows Jobs as rows.

    Args:
        client: Where the facts beyond the Jobs are read.
        namespace: The namespace of the Jobs; empty for all.
        clock: The time for ages.
        show_rows: Called with all rows.
    """
    known = JobEvidence()

    async def show_jobs(jobs: Sequence[Job]) -> None:
        nonlocal known
        # A table that is watched survives an outage of the server, as the watch of its Jobs does.
        with suppress(ApiError, TransportError):
            known = await read_evidence(client, namespace, jobs)
        show_rows(rows_of(jobs, known, clock.now()))

    return show_jobs


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


def _changes(clock: Clock, form: str | None) -> _Show:
    shown: list[JobRow] = []

    def show_changed(rows: list[JobRow]) -> None:
        now, news = clock.now(), list(changed(shown, rows))
        shown[:] = rows
        if form == "name":
            _print_names(news)
        elif form in ("json", "yaml"):
            show_each(news, form)
        else:
            for row in news:
                click.echo(printable("  ".join(row.cells(now, wide=form == "wide"))))

    return show_changed


def _redraw(clock: Clock, form: str | None) -> _Show:

    def redraw(rows: list[JobRow]) -> None:
        size = shutil.get_terminal_size()
        shown = rows[: max(size.lines - 3, 1)]
        lines = lines_of(shown, clock.now(), wide=form == "wide", columns=size.columns)
        text = "\n".join((summary_of(rows)[: size.columns], *lines))
        click.echo(f"{_HOME}{text}{_CLEAR}")

    return redraw
