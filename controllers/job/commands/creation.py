"""The options that `kcr rerun` and `kcr run-now` share, the create of their Job, its output and its event."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click
import msgspec

from kcr.api import codec
from kcr.api.core import ObjectReference, reference_to
from kcr.api.meta import Resource
from kcr.api.unstructured import Unstructured
from kcr.cli import options as shared
from kcr.client import Client
from kcr.clock import SystemClock
from kcr.controllers.job.commands.copies import WholeJob
from kcr.errors import ConfigError, ForbiddenError, InvalidError, KcrError
from kcr.events import single_event
from kcr.refusals import denials_in, refusal_of

F = TypeVar("F", bound=Callable[..., Any])

# As kubectl marks Jobs that are not stored.
_MARKS: Mapping[str, str] = {"none": "", "client": " (dry run)", "server": " (server dry run)"}


def creation_options(command: F) -> F:
    """Add `--name`, `--dry-run` and `--output`, and those of `options.object_options`."""
    name = click.option(
        "--name", "job_name", metavar="NAME", default="", allow_from_autoenv=False,
        help="Name of the new Job; by default one made from the name of the other.",
    )  # fmt: skip
    dry_run = click.option(
        "--dry-run", type=click.Choice([*_MARKS]), default="none", show_default=True, allow_from_autoenv=False,
        help="Send nothing (client), or have the server check the Job and not store it (server).",
    )  # fmt: skip
    output = click.option("-o", "--output", type=click.Choice(["json", "name"]), help="Print the Job, or its name.")
    return name(dry_run(output(shared.object_options(command))))


async def create_job(client: Client, manifest: Mapping[str, Any], dry_run: str) -> Unstructured:
    """Create a Job, and return it as the server stored it.

    Args:
        client: Talks to the server.
        manifest: The Job.
        dry_run: `none`, `server`, or `client`, which sends nothing.

    Raises:
        AlreadyExistsError: The name is taken.
        ConfigError: The server refuses the Job; the message has the remedy.
    """
    if dry_run == "client":
        return WholeJob.of(manifest)
    namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
    writer = client.with_options(dry_run=dry_run == "server")
    try:
        return await writer.create_manifest(WholeJob, manifest, namespace)
    except (ForbiddenError, InvalidError) as error:
        if denials_in(error.message):
            # A missing right, of which the connection says more.
            raise
        remedy = "name it differently with --name, or create one by hand with a valid spec"
        if isinstance(error, ForbiddenError):
            change = "create one by hand with a template"
            remedy = refusal_of(error.message, namespace=namespace, resource="jobs", change=change).remedy
        raise ConfigError(f"cannot create job.batch/{name}: {error.message}: {remedy}") from error


def show(job: Unstructured, values: Mapping[str, Any]) -> None:
    """Print a new Job as kubectl does.

    Args:
        job: The Job.
        values: The options `output` and `dry_run`.
    """
    if values["output"] == "json":
        click.echo(msgspec.json.format(codec.encode(job), indent=4))
        return
    state = "" if values["output"] == "name" else f" created{_MARKS[values['dry_run']]}"
    click.echo(f"job.batch/{job.metadata.name}{state}")


async def record(client: Client, about: Resource | ObjectReference, reason: str, message: str) -> None:
    """Record one event; that it cannot be is a line on stderr.

    Args:
        client: Talks to the server.
        about: The object that the event is about.
        reason: Why, as one CamelCase word.
        message: The description.
    """
    reference = about if isinstance(about, ObjectReference) else reference_to(about)
    try:
        await client.create(single_event("kcr", reference, reason, message, SystemClock()))
    except KcrError as error:
        click.echo(f"kcr: no event recorded: {error}", err=True)
