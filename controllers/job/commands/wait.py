"""`kcr wait`: until Jobs have ended, whichever way."""

import asyncio
import random
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

import click

from kcr.api.batch import Job
from kcr.api.meta import Key
from kcr.cli import options as shared
from kcr.cli.completers import complete_jobs
from kcr.cli.connection import connected, find, run_quietly
from kcr.cli.display import open_display, state_of
from kcr.cli.target import ObjectName, parse_jobs
from kcr.client import Client
from kcr.clock import SystemClock
from kcr.controllers.job.commands.job_progress import ENDED, JobProgress
from kcr.controllers.job.commands.logs import pods_of
from kcr.controllers.job.decisions.pod_troubles.failures import digest_of, end_text
from kcr.controllers.job.pod_context import read_last_lines
from kcr.errors import ApiError, ConfigError
from kcr.informer import Selection
from kcr.log.lines import printable
from kcr.manager import Manager

# As of timeout(1).
_TIMED_OUT = 124
# So many lines of the pod that failed last are printed.
_LINES = 5


def _parse_state(ctx: click.Context, parameter: click.Parameter, text: str) -> str:
    state = text.lower().removeprefix("condition=").capitalize()
    if state not in ENDED:
        raise click.BadParameter(f"{text!r} is not an end of a Job: write complete or failed")
    return state


@click.command(
    "wait",
    context_settings={"auto_envvar_prefix": "KCR"},
    epilog="Exit codes: 0 when all have ended as they were to, 1 when one has not, or was deleted, 124 after "
    "--timeout, 130 after Ctrl-C, 2 on a wrong option.",
)
@click.argument("jobs", nargs=-1, metavar="job/NAME…", callback=parse_jobs, shell_complete=complete_jobs)
@shared.fleet_options
@shared.selector_option("Wait for the Jobs that have these labels now, such as app=web.")
@click.option("--all", "every", is_flag=True, allow_from_autoenv=False, help="Wait for all Jobs that there are now.")
@click.option(
    "--for", "wanted", metavar="STATE", default="Complete", show_default="complete", callback=_parse_state,
    allow_from_autoenv=False, help="How they are to end: complete or failed. The other end is an error.",
)  # fmt: skip
@click.option(
    "--timeout", "seconds", metavar="DURATION", callback=shared.optional_seconds, show_default="none",
    help="How long to wait at most, such as 90s or 1h30m.",
)  # fmt: skip
def command(jobs: tuple[ObjectName, ...], wanted: str, seconds: float | None, **values: Any) -> int:
    """Wait until Jobs have ended: Complete or Failed.

    How each ended is a line on stdout; progress is written to stderr, as bars on a terminal. For a failed Job stderr
    also has its failed pods by cause, and the last lines of the pod that failed last.
    """
    if [bool(jobs), bool(values["selector"]), values["every"]].count(True) != 1:
        raise click.UsageError("name Jobs, as in job/NAME, or choose them with -l or --all; one of these")
    if values["everywhere"] and jobs:
        raise click.UsageError("-A needs -l or --all: name the namespace of a Job with -n")
    return run_quietly(lambda: _wait(jobs, wanted, seconds, values))


async def _wait(jobs: tuple[ObjectName, ...], wanted: str, seconds: float | None, values: Mapping[str, Any]) -> int:
    async with connected(values) as (client, own, _), AsyncExitStack() as stack:
        namespace = "" if values["everywhere"] else own
        keys = [Key(namespace, one.name) for one in jobs] or [
            job.key for job in await client.list(Job, namespace, labels=values["selector"])
        ]
        if not keys:
            which = f"has the labels {values['selector']}" if values["selector"] else "exists"
            place = namespace or "any namespace"
            raise ConfigError(f"no Job in {place} {which}: see kubectl get jobs -A --show-labels")
        manager = Manager(client, random=random.Random(), namespace=namespace)
        if len(keys) == 1:
            # The least that the server has to send, and that a role has to allow.
            manager.select(Selection(Job, keys[0].namespace, fields=f"metadata.name={keys[0].name}"))
        progress = JobProgress(manager, open_display(stack, manager), keys)
        try:
            async with asyncio.timeout(seconds):
                for key in keys:
                    await find(client, Job, key)
                async with manager.running():
                    await progress.find_unseen(client, keys)
                    await progress.ended(keys)
        except TimeoutError:
            pass
        names = {key: str(ObjectName(Job, key.name)) for key in keys}
        if not namespace:
            names = {key: f"{key.namespace} {name}" for key, name in names.items()}
        return max([await _report(name, key, wanted, progress, client) for key, name in names.items()])


async def _report(name: str, key: Key, wanted: str, progress: JobProgress, client: Client) -> int:
    """Print how a Job ended, and return the exit code that it asks for."""
    view = progress.view(key)
    if not progress.is_over(key):
        state = printable(f": {state_of(view, SystemClock().now())}") if view else ""
        see = f"see what it waits for: kcr explain -n {key.namespace} job/{key.name}"
        click.echo(f"kcr: timed out waiting for {name}{state}: {see}", err=True)
        return _TIMED_OUT
    if view is None or not view.has_ended:
        click.echo(f"{name} deleted")
        return 1
    click.echo(f"{name} {view.state.lower()}{': ' if view.why else ''}{printable(view.why)}")
    if view.state == "Complete" or view.state == wanted:
        return 0 if view.state == wanted else 1
    for line in await _digest(name, key, client):
        click.echo(printable(line), err=True)
    return 1


async def _digest(name: str, key: Key, client: Client) -> list[str]:
    """Return why a Job failed: its rule, its pods by cause, and the end and last output of the pod that failed last.

    Parts that the user may not read are omitted.
    """
    try:
        job = await client.get(Job, key)
        digest = digest_of(job, await pods_of(job, client, fields="status.phase=Failed"))
    except ApiError:
        return []
    lines = [f"{name}: {digest.text}"]
    if digest.last is not None:
        output = await read_last_lines(client, digest.last, _LINES)
        lines.append(f"  {end_text(digest.last)}{'; its last lines:' if output else ''}")
        lines += [f"  | {line}" for line in output]
    return lines
