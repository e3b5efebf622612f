"""`kcr rerun`: an ended Job once more, whole or the indexes that have not succeeded."""

from collections.abc import Mapping
from typing import Any

import click

from kcr.api.batch import RERUN_OF, Job, finished_type
from kcr.api.core import ObjectReference
from kcr.api.indexset import IndexSet
from kcr.api.meta import Key
from kcr.api.unstructured import Unstructured
from kcr.cli.completers import complete_jobs
from kcr.cli.connection import connected, run_quietly, searched
from kcr.cli.target import ObjectName, parse_job
from kcr.client import Client
from kcr.controllers.job.commands.copies import (
    RERUN_INDEXES,
    WholeJob,
    completed_indexes,
    left_indexes,
    owner_of,
    rerun_name,
    rerun_of,
    share_text,
    status_of,
)
from kcr.controllers.job.commands.creation import create_job, creation_options, record, show
from kcr.errors import AlreadyExistsError, ConfigError


@click.command(
    "rerun",
    context_settings={"auto_envvar_prefix": "KCR"},
    epilog="Exit codes: 0, 1 when the Job is not created, 2 on a wrong option.",
)
@click.argument("job", metavar="job/NAME", callback=parse_job, shell_complete=complete_jobs)
@click.option(
    "--failed-indexes", is_flag=True, allow_from_autoenv=False,
    help="Of an Indexed Job, run only the indexes that have not succeeded; the others count as completed.",
)  # fmt: skip
@creation_options
def command(job: ObjectName, **values: Any) -> int:
    """Run an ended Job again, as a new Job with its spec, labels and annotations.

    The Job of a CronJob stays one: the new Job has the same owner, and is no scheduled run. Events on the Job and on
    its CronJob name the new one. By default it is called NAME-rerun-1, so that a second call starts nothing.
    """
    return run_quietly(lambda: _rerun(job, values))


async def _rerun(named: ObjectName, values: Mapping[str, Any]) -> int:
    async with connected(values) as (client, namespace, _):
        with searched(Job):
            job = await client.get(WholeJob, Key(namespace, named.name))
        name = values["job_name"] or rerun_name(job)
        indexes = _checked(job, named, only_failed=values["failed_indexes"])
        try:
            made = await create_job(client, rerun_of(job, name, indexes), values["dry_run"])
        except AlreadyExistsError as error:
            found = await _incomplete_copy(client, job, name, indexes)
            if found is None:
                again = "" if values["job_name"] else f"; run that one again with kcr rerun job/{name}"
                raise ConfigError(f"job.batch/{name} exists already: name the new one with --name{again}") from error
            made = found
        if values["dry_run"] == "none":
            made = made if indexes is None else await _start(client, made, completed_indexes(job))
            await _record(client, job, name, indexes)
        show(made, values)
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


async def _record(client: Client, job: Unstructured, name: str, indexes: IndexSet | None) -> None:
    which = "" if indexes is None else f", {share_text(job, indexes)} indexes"
    message = f"Created job {name} on request: runs {job.metadata.name} again{which}"
    await record(client, job, "Rerun", message)
    owner = owner_of(job)
    if owner is not None:
        about = ObjectReference(
            kind=owner.kind, namespace=job.metadata.namespace, name=owner.name, uid=owner.uid,
            api_version=owner.api_version,
        )  # fmt: skip
        await record(client, about, "Rerun", message)
