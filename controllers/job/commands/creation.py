"""`kcr rerun` and `kcr run-now`: the commands that create a Job from one that is there, or from its template."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click
import msgspec

from kcr.api import codec
from kcr.api.batch import RERUN_OF, CronJob, Job, finished_type
from kcr.api.core import ObjectReference, reference_to
from kcr.api.indexset import IndexSet
from kcr.api.meta import Key, Resource
from kcr.api.unstructured import Unstructured
from kcr.cli import options as shared
from kcr.cli.completers import complete_cronjobs, complete_jobs
from kcr.cli.connection import connected, find, run_quietly
from kcr.cli.output import output_option, show
from kcr.cli.target import ObjectName, named
from kcr.client import Client
from kcr.clock import SystemClock
from kcr.controllers.job.commands.copies import (
    RERUN_INDEXES,
    WholeJob,
    completed_indexes,
    left_indexes,
    owner_of,
    rerun_name,
    rerun_of,
    run_name,
    run_of,
    share_text,
    status_of,
)
from kcr.errors import AlreadyExistsError, ConfigError, ForbiddenError, InvalidError, KcrError
from kcr.events import single_event
from kcr.refusals import denials_in, refusal_of

F = TypeVar("F", bound=Callable[..., Any])

_COMMAND: Mapping[str, Any] = {
    "context_settings": {"auto_envvar_prefix": "KCR"},
    "epilog": "Exit codes: 0, 1 when the Job is not created, 2 on a wrong option.",
}

# As kubectl marks Jobs that are not stored.
_MARKS: Mapping[str, str] = {"none": "", "client": " (dry run)", "server": " (server dry run)"}


def _creation_options(command: F) -> F:
    """Add the options that the two commands share."""
    name = click.option(
        "--name", "job_name", metavar="NAME", default="", allow_from_autoenv=False,
        help="Name of the new Job; by default one made from the name of the other.",
    )  # fmt: skip
    dry_run = click.option(
        "--dry-run", type=click.Choice([*_MARKS]), default="none", show_default=True, allow_from_autoenv=False,
        help="Send nothing (client), or have the server check the Job and not store it (server).",
    )  # fmt: skip
    output = output_option("name", words="Print the Job, or its name.")
    return name(dry_run(output(shared.object_options(command))))


@click.command("rerun", **_COMMAND)
@named(Job, complete_jobs)
@click.option(
    "--failed-indexes", is_flag=True, allow_from_autoenv=False,
    help="Of an Indexed Job, run only the indexes that have not succeeded; the others count as completed.",
)  # fmt: skip
@_creation_options
def rerun(job: ObjectName, **values: Any) -> int:
    """Run an ended Job again, as a new Job.

    It has its spec, labels and annotations. The Job of a CronJob stays one: the new Job has the same owner, and is no
    scheduled run. Events on the Job and on its CronJob name the new one. By default it is called NAME-rerun-1, so that
    a second call starts nothing.
    """
    return run_quietly(lambda: _rerun(job, values))


async def _rerun(named: ObjectName, values: Mapping[str, Any]) -> int:
    async with connected(values) as (client, namespace, _):
        job = await find(client, WholeJob, Key(namespace, named.name))
        name = values["job_name"] or rerun_name(job)
        indexes = _checked(job, named, only_failed=values["failed_indexes"])
        try:
            made = await _create_job(client, rerun_of(job, name, indexes), values["dry_run"])
        except AlreadyExistsError as error:
            found = await _incomplete_copy(client, job, name, indexes)
            if found is None:
                again = "" if values["job_name"] else f"; run that one again with kcr rerun job/{name}"
                raise ConfigError(f"job.batch/{name} already exists: name the new one with --name{again}") from error
            made = found
        if values["dry_run"] == "none":
            made = made if indexes is None else await _start(client, made, completed_indexes(job))
            await _record_rerun(client, job, name, indexes)
        _show(made, values)
        return 0


def _checked(job: Unstructured, named: ObjectName, *, only_failed: bool) -> IndexSet | None:
    """Return the indexes to run, None for all.

    Raises:
        ConfigError: The Job cannot be run again, or has no such indexes.
    """
    spec = job.get("spec") or {}
    if not finished_type(Job(metadata=job.metadata, status=status_of(job))):
        raise ConfigError(f"{named} has not ended: wait for it with kcr wait {named}, or delete it first")
    if spec.get("manualSelector"):
        raise ConfigError(
            f"{named} has a selector of its own (manualSelector), which its copy would share: create it anew"
        )
    if not only_failed:
        return None
    if spec.get("completionMode") != "Indexed":
        raise ConfigError(f"{named} has no indexes (completionMode Indexed): run it whole, without --failed-indexes")
    found = left_indexes(job)
    if not found:
        raise ConfigError(f"{named} has no failed indexes: all have succeeded; run it whole, without --failed-indexes")
    return found


async def _incomplete_copy(
    client: Client, job: Unstructured, name: str, indexes: IndexSet | None
) -> Unstructured | None:
    if indexes is None:
        return None
    found = await client.get(WholeJob, Key(job.metadata.namespace, name))
    own = found.metadata.annotations
    is_copy = (own.get(RERUN_OF), own.get(RERUN_INDEXES)) == (job.metadata.name, share_text(job, indexes))
    is_fresh = status_of(found).completed_indexes in ("", str(completed_indexes(job)))
    return found if is_copy and is_fresh and (found.get("spec") or {}).get("suspend") else None


async def _start(client: Client, copy: Unstructured, completed: IndexSet) -> Unstructured:
    """Record the completed indexes of a suspended copy, and resume it.

    Any Job controller creates pods for the other indexes only. Each write may be the last one of this process: the copy
    stays suspended, and the next call continues.

    Source: kubernetes/pkg/controller/job/indexed_job_utils.go, calculateSucceededIndexes.
    """
    same = {"uid": copy.metadata.uid}
    status = {"completedIndexes": str(completed), "succeeded": len(completed)}
    await client.merge_patch(WholeJob, copy.key, {"metadata": same, "status": status}, subresource="status")
    return await client.merge_patch(WholeJob, copy.key, {"metadata": same, "spec": {"suspend": False}})


async def _record_rerun(client: Client, job: Unstructured, name: str, indexes: IndexSet | None) -> None:
    which = "" if indexes is None else f", {share_text(job, indexes)} indexes"
    message = f"Created job {name} on request: runs {job.metadata.name} again{which}"
    await _record_event(client, job, "Rerun", message)
    owner = owner_of(job)
    if owner is not None:
        about = ObjectReference(
            kind=owner.kind, namespace=job.metadata.namespace, name=owner.name, uid=owner.uid,
            api_version=owner.api_version,
        )  # fmt: skip
        await _record_event(client, about, "Rerun", message)


@click.command("run-now", **_COMMAND)
@named(CronJob, complete_cronjobs)
@_creation_options
def run_now(cronjob: ObjectName, **values: Any) -> int:
    """Start a Job of a CronJob now, even of a suspended one.

    The Job has the owner, labels and annotations of a scheduled one, and an event on the CronJob names it. It is no
    scheduled run: status.lastScheduleTime stays, and concurrencyPolicy does not apply. By default its name has the
    present minute, so that a second call in the same minute starts nothing.
    """
    return run_quietly(lambda: _run_now(cronjob, values))


async def _run_now(cronjob: ObjectName, values: Mapping[str, Any]) -> int:
    async with connected(values) as (client, namespace, _):
        cron = await find(client, CronJob, Key(namespace, cronjob.name))
        if cron.metadata.deletion_timestamp is not None:
            raise ConfigError(f"{cronjob} is being deleted, and a Job of it would be deleted as well: create it anew")
        name = values["job_name"] or run_name(cron, SystemClock().now())
        try:
            job = await _create_job(client, run_of(cron, name), values["dry_run"])
        except AlreadyExistsError as error:
            hint = "name the new one with --name" if values["job_name"] else "wait a minute, or use --name"
            raise ConfigError(f"job.batch/{name} already exists: to start one more, {hint}") from error
        if values["dry_run"] == "none":
            await _record_event(client, cron, "RunNow", f"Created job {name} on request, beside the schedule")
        _show(job, values)
        return 0


async def _create_job(client: Client, manifest: Mapping[str, Any], dry_run: str) -> Unstructured:
    """Create a Job, and return it as the server stored it; `dry_run` is `client` for sending nothing.

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


def _show(job: Unstructured, values: Mapping[str, Any]) -> None:
    """Print a new Job as kubectl does."""
    if values["output"] == "json":
        click.echo(msgspec.json.format(codec.encode(job), indent=4))
        return
    if values["output"] == "yaml":
        show(job, "yaml")
        return
    state = "" if values["output"] == "name" else f" created{_MARKS[values['dry_run']]}"
    click.echo(f"job.batch/{job.metadata.name}{state}")


async def _record_event(client: Client, about: Resource | ObjectReference, reason: str, message: str) -> None:
    """Record one event; that it cannot be is a line on stderr."""
    reference = about if isinstance(about, ObjectReference) else reference_to(about)
    try:
        await client.create(single_event("kcr", reference, reason, message, SystemClock()))
    except KcrError as error:
        click.echo(f"kcr: no event recorded: {error}", err=True)
