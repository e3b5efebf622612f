"""`kcr run-now`: a Job of a CronJob, started now and beside its schedule."""

from collections.abc import Mapping
from typing import Any

import click

from kcr.api.batch import CronJob
from kcr.api.meta import Key
from kcr.cli.completers import complete_cronjobs
from kcr.cli.connection import connected, run_quietly, searched
from kcr.cli.target import ObjectName, parse_cronjob
from kcr.clock import SystemClock
from kcr.controllers.job.commands.copies import run_name, run_of
from kcr.controllers.job.commands.creation import create_job, creation_options, record, show
from kcr.errors import AlreadyExistsError, ConfigError


@click.command(
    "run-now",
    context_settings={"auto_envvar_prefix": "KCR"},
    epilog="Exit codes: 0, 1 when the Job is not created, 2 on a wrong option.",
)
@click.argument("cronjob", metavar="cronjob/NAME", callback=parse_cronjob, shell_complete=complete_cronjobs)
@creation_options
def command(cronjob: ObjectName, **values: Any) -> int:
    """Start a Job of a CronJob now, also while the CronJob is suspended.

    The Job has the owner, labels and annotations of a scheduled one, and an event on the CronJob names it. It is no
    scheduled run: status.lastScheduleTime stays, and concurrencyPolicy does not apply. By default its name has the
    present minute, so that a second call in the same minute starts nothing.
    """
    return run_quietly(lambda: _run(cronjob, values))


async def _run(cronjob: ObjectName, values: Mapping[str, Any]) -> int:
    async with connected(values) as (client, namespace, _):
        with searched(CronJob):
            cron = await client.get(CronJob, Key(namespace, cronjob.name))
        if cron.metadata.deletion_timestamp is not None:
            raise ConfigError(f"{cronjob} is being deleted, and a Job of it would be deleted as well: create it anew")
        name = values["job_name"] or run_name(cron, SystemClock().now())
        try:
            job = await create_job(client, run_of(cron, name), values["dry_run"])
        except AlreadyExistsError as error:
            hint = "name the new one with --name" if values["job_name"] else "wait a minute, or use --name"
            raise ConfigError(f"job.batch/{name} exists already: to start one more, {hint}") from error
        if values["dry_run"] == "none":
            await record(client, cron, "RunNow", f"Created job {name} on request, beside the schedule")
        show(job, values)
        return 0
