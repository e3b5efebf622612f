"""`kcr crd migrate`: rewrites the objects of a definition in its storage version.

The API server stores an object in the storage version at its next write, also at one that changes nothing: an empty
patch. Once all objects are rewritten, the old versions leave `status.storedVersions`, and may leave the definition. The
command can be interrupted anywhere and run again: the patch of an object in the storage version stores nothing.

Source: kubernetes/pkg/controller/storageversionmigrator/storageversionmigrator.go.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import click

from kcr.api.meta import Key, Object, PartialObjectMetadata, ResourceView, metadata_only
from kcr.api.resources import ResourceType
from kcr.cli import options as shared
from kcr.cli.connection import connected, run_quietly
from kcr.client import Client
from kcr.errors import ApiError, ConfigError, ConflictError, KcrError, NotFoundError, TransportError
from kcr.log.lines import printable

_PARALLEL = 8


class _Names(Object):
    plural: str
    kind: str


class _Version(Object):
    name: str
    served: bool = False
    storage: bool = False


class _Spec(Object):
    group: str
    names: _Names
    versions: tuple[_Version, ...]
    scope: str = "Namespaced"


class _Status(Object):
    stored_versions: tuple[str, ...] = ()


class CustomResourceDefinition(
    ResourceView, api_version="apiextensions.k8s.io/v1", plural="customresourcedefinitions", namespaced=False
):
    """The versions of a definition."""

    spec: _Spec
    status: _Status = _Status()

    @property
    def storage_version(self) -> str:
        """The version in which objects are stored from now on."""
        return next(one.name for one in self.spec.versions if one.storage)

    @property
    def old_versions(self) -> tuple[str, ...]:
        """The other versions in which objects may be stored."""
        return tuple(one for one in self.status.stored_versions if one != self.storage_version)

    def objects(self) -> type[PartialObjectMetadata]:
        """Return the type of its objects in a served version, the storage version where it is one.

        Raises:
            ConfigError: None is served.
        """
        served = sorted((one for one in self.spec.versions if one.served), key=lambda one: not one.storage)
        if not served:
            raise ConfigError(f"{self.metadata.name}: no version is served: set served: true on one of them")
        spec = self.spec
        return metadata_only(
            ResourceType(spec.group, served[0].name, spec.names.kind, spec.names.plural, spec.scope == "Namespaced")
        )


class Migrated(NamedTuple):
    """The outcome of a migration.

    Attributes:
        version: The storage version.
        removed: The versions that left `status.storedVersions`.
        objects: How many objects were rewritten.
    """

    version: str
    removed: tuple[str, ...]
    objects: int


async def migrate_definition(
    client: Client, name: str, *, chunk: int = 100, report: Callable[[int, int], object] = lambda done, total: None
) -> Migrated:
    """Rewrite all objects of a definition in its storage version, then forget the old versions.

    Args:
        client: The cluster; in a dry run it changes nothing.
        name: The definition.
        chunk: How many objects are rewritten between two reports.
        report: Called with the number of rewritten objects and of all.

    Raises:
        ConfigError: An object cannot be rewritten, or the definition has changed meanwhile.
        ApiError: The server refuses; after the cause is mended, call it again.
    """
    definition = await _read(client, name)
    version, old = definition.storage_version, definition.old_versions
    if not old:
        return Migrated(version, (), 0)
    await _check_rights(client, definition)
    kind = definition.objects()
    # Only after the definition: objects that come later are stored in the storage version.
    found = await client.list(kind)
    for start in range(0, len(found), chunk):
        part = found[start : start + chunk]
        await _rewrite_all(client, name, part)
        report(start + len(part), len(found))
    await _forget(client, definition)
    return Migrated(version, old, len(found))


async def _read(client: Client, name: str) -> CustomResourceDefinition:
    try:
        return await client.get(CustomResourceDefinition, Key("", name))
    except NotFoundError:
        remedy = "name it as PLURAL.GROUP, see `kubectl get crd`"
        raise ConfigError(f"no CustomResourceDefinition {name} exists: {remedy}") from None


async def _check_rights(client: Client, definition: CustomResourceDefinition) -> None:
    """Find out before the objects are rewritten whether the last step is allowed."""
    checked = client.with_options(dry_run=True)
    await checked.merge_patch(CustomResourceDefinition, definition.key, {}, subresource="status")


async def _rewrite_all(client: Client, name: str, found: Sequence[PartialObjectMetadata]) -> None:
    gate = asyncio.Semaphore(_PARALLEL)
    async with asyncio.TaskGroup() as group:
        tasks = [(one, group.create_task(_rewrite(client, one, gate))) for one in found]
    failed = [(one, error) for one, task in tasks if (error := task.result()) is not None]
    if failed:
        first, error = failed[0]
        if isinstance(error, TransportError):
            raise error
        raise ConfigError(
            f"{name}: {len(failed)} of {len(found)} objects cannot be rewritten, the first is {first.key}: {error}: "
            "mend the cause and run the command again; status.storedVersions is unchanged"
        )


async def _rewrite(client: Client, obj: PartialObjectMetadata, gate: asyncio.Semaphore) -> KcrError | None:
    """Write an object as it is, and return the failure."""
    patch = {"metadata": {"resourceVersion": obj.metadata.resource_version}}
    async with gate:
        try:
            try:
                await client.merge_patch(type(obj), obj.key, patch)
            except ConflictError:
                # Written since the list, perhaps through a replica of the API server that knew the old version only.
                await client.merge_patch(type(obj), obj.key, {})
        except NotFoundError:
            return None
        except (ApiError, TransportError) as error:
            return error
    return None


async def _forget(client: Client, before: CustomResourceDefinition) -> None:
    """Remove the old versions from the status."""
    while True:
        definition = await _read(client, before.metadata.name)
        if (definition.metadata.uid, definition.spec) != (before.metadata.uid, before.spec):
            raise ConfigError(
                f"{before.metadata.name}: its versions have changed while objects were rewritten: run the command again"
            )
        kept = [one for one in definition.status.stored_versions if one not in before.old_versions]
        metadata = {"resourceVersion": definition.metadata.resource_version}
        patch = {"metadata": metadata, "status": {"storedVersions": kept}}
        try:
            await client.merge_patch(CustomResourceDefinition, definition.key, patch, subresource="status")
        except ConflictError:
            # Another client wrote the definition: perhaps its versions.
            continue
        return


@click.command(
    "migrate",
    short_help="Rewrite stored objects in the storage version.",
    context_settings={"auto_envvar_prefix": "KCR"},
    epilog="Exit codes: 0, 1 when an object or the definition cannot be written, 130 after Ctrl-C, 2 on a wrong "
    "option. Run it again after a failure: objects in the storage version are not written again.",
)
@click.argument("names", nargs=-1, required=True, metavar="PLURAL.GROUP…")
@shared.program_options("kubeconfig", "context", "exec_plugins")
@click.option(
    "--chunk-size", type=click.IntRange(min=1), default=100, show_default=True, metavar="N",
    help="How many objects to rewrite between two lines of progress.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Have the server check every write, and keep none.")
def migrate(names: tuple[str, ...], **values: Any) -> int:
    """Rewrite all objects of definitions in their storage versions, on any cluster.

    Then the old versions are removed from status.storedVersions, and can be removed from the definition. The rights:
    get of customresourcedefinitions, patch of customresourcedefinitions/status, list and patch of the objects.
    """
    return run_quietly(lambda: _migrate(names, values))


async def _migrate(names: Sequence[str], values: Mapping[str, Any]) -> int:
    async with connected({**values, "namespace": ""}) as (connection, _, _):
        client = connection.with_options(dry_run=values["dry_run"])
        for name in dict.fromkeys(names):

            def report(done: int, total: int, name: str = name) -> None:
                click.echo(f"{name}: {done} of {total} objects", err=True)

            done = await migrate_definition(client, name, chunk=values["chunk_size"], report=report)
            click.echo(printable(_line(name, done, is_dry_run=values["dry_run"])))
    return 0


def _line(name: str, done: Migrated, *, is_dry_run: bool) -> str:
    if not done.removed:
        return f"{name}: all objects are stored in {done.version}"
    end = " (dry run)" if is_dry_run else ""
    are = "1 object is" if done.objects == 1 else f"{done.objects} objects are"
    return f"{name}: {are} stored in {done.version}; {', '.join(done.removed)} removed{end}"
