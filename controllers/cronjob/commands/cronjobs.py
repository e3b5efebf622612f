"""`kcr cronjobs`: all CronJobs of a namespace or cluster, with their last and next runs and what stops them."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import msgspec

from kcr.api.batch import CronJob, Job
from kcr.api.durations import human_duration
from kcr.api.meta import controller_of
from kcr.cli import options as shared
from kcr.cli.connection import connected, run_quietly
from kcr.cli.output import output_option, show, table
from kcr.cli.target import ObjectName
from kcr.clock import SystemClock
from kcr.controllers.cronjob.decisions.explain import explain
from kcr.controllers.cronjob.decisions.runs import next_run_of
from kcr.controllers.cronjob.explanation import facts_of
from kcr.log.lines import printable

HEADER = ("NAMESPACE", "NAME", "SCHEDULE", "NEXT", "LAST", "ACTIVE", "CAUSE")


class CronJobRow(msgspec.Struct, frozen=True, rename="camel"):
    """A CronJob as a row.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        schedule: Its schedule, and its time zone if it names one.
        next: When it runs next; None for never, and while it is suspended.
        last: When it ran last; None for never.
        active: How many of its Jobs run.
        cause: What stops it or has failed; empty for nothing.
    """

    namespace: str
    name: str
    schedule: str
    next: datetime | None
    last: datetime | None
    active: int
    cause: str

    def cells(self, now: datetime) -> tuple[str, ...]:
        """Return the cells of the table, under `HEADER`."""
        due = human_duration(max(self.next - now, timedelta())) if self.next else "-"
        last = human_duration(max(now - self.last, timedelta())) if self.last else "-"
        return self.namespace, self.name, self.schedule, due, last, str(self.active), self.cause or "-"


def row_of(cron: CronJob, jobs: tuple[Job, ...], now: datetime) -> CronJobRow:
    """Return a CronJob as a row.

    Args:
        cron: The CronJob.
        jobs: Its Jobs.
        now: The moment to judge at; a schedule without a zone is in UTC.
    """
    seen, spec = facts_of(cron, jobs, UTC, now), cron.spec
    headline = explain(seen).headline
    return CronJobRow(
        cron.metadata.namespace, cron.metadata.name, f"{spec.schedule} {spec.time_zone or ''}".rstrip(),
        None if spec.suspend else next_run_of(seen), cron.status.last_schedule_time, len(cron.status.active),
        headline.partition("; ")[2] if headline.startswith("runs next") else headline,
    )  # fmt: skip


@click.command(
    "cronjobs",
    context_settings={"auto_envvar_prefix": "KCR"},
    epilog="Exit codes: 0, 1 when the server cannot be used, 2 on a wrong option.",
)
@shared.fleet_options
@shared.selector_option("Only CronJobs with these labels, such as app=web.")
@output_option("name", words="Print the names, or JSON or YAML.")
def command(**values: Any) -> int:
    """Show all CronJobs, those that are stopped or have failed first.

    Schedules without a time zone are in UTC. `kcr explain` says more about one CronJob.
    """
    return run_quietly(lambda: _cronjobs(values))


async def _cronjobs(values: Mapping[str, Any]) -> int:
    async with connected(values) as (client, own, _):
        namespace, now = "" if values["everywhere"] else own, SystemClock().now()
        owned = defaultdict[str, tuple[Job, ...]](tuple)
        crons = await client.list(CronJob, namespace, labels=values["selector"])
        for job in await client.list(Job, namespace) if crons else ():
            if (owner := controller_of(job.metadata)) is not None:
                owned[owner.uid] += (job,)
    rows = [row_of(cron, owned[cron.metadata.uid], now) for cron in crons]
    rows.sort(key=lambda row: (not row.cause, row.namespace, row.name))
    if values["output"] == "name":
        click.echo("".join(f"{ObjectName(CronJob, row.name)}\n" for row in rows), nl=False)
    elif values["output"]:
        show({"cronJobs": rows}, values["output"])
    elif rows:
        click.echo("\n".join(map(printable, table(HEADER, [row.cells(now) for row in rows]))))
    else:
        click.echo("no CronJobs", err=True)
    return 0
