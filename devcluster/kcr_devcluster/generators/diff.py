"""`kcr crd diff`: says what a change of definitions breaks, for objects and for clients."""

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from kcr.api import codec
from kcr.api.meta import Key
from kcr.api.unstructured import unstructured
from kcr.cli import options as shared
from kcr.cli.connection import connected, run_quietly
from kcr.cli.output import output_option, show
from kcr.errors import ConfigError, KcrError, NotFoundError
from kcr.log.lines import printable
from kcr_devcluster.generators.changes import Change, changes
from kcr_devcluster.generators.check import counted
from kcr_devcluster.manifests import Document, documents_in, read_documents
from kcr_devcluster.versions import DEFAULT

# Manifests by name.
Definitions = dict[str, Mapping[str, Any]]

_CLUSTER = "cluster"
_KIND = "CustomResourceDefinition"
_GIT_SECONDS = 30.0
_Definition = unstructured("apiextensions.k8s.io/v1", _KIND, plural="customresourcedefinitions", namespaced=False)


class Difference(NamedTuple):
    """A change of one definition."""

    definition: str
    change: Change


@click.command(
    "diff",
    short_help="Say what a change of definitions breaks.",
    context_settings={"auto_envvar_prefix": "KCR"},
    epilog="Exit codes: 0 when nothing breaks, 1 when objects or clients break, 2 when a definition cannot be read.",
)
@click.argument("old")
@click.argument("new")
@shared.program_options("kubeconfig", "context", "exec_plugins")
@output_option()
def diff(old: str, new: str, output: str | None, **values: Any) -> int:
    """Say what breaks for objects and clients when definitions change from OLD to NEW.

    OLD and NEW are files, folders, URLs, - for stdin, REVISION:FILE of git, or cluster for those that a cluster has.
    Each change is a line; one that breaks something has what helps.

    \b
    Examples:
      kcr crd diff main:crd/websites.yaml crd/websites.yaml
      kcr crd diff cluster crd/ --context production
    """  # noqa: D301 - click's mark for lines that are kept
    if old == new == _CLUSTER:
        raise click.UsageError("OLD and NEW are the cluster: name a file for one of them")
    try:
        read = {source: _definitions(source) for source in (old, new) if source != _CLUSTER}
        if _CLUSTER in (old, new):
            names, read[_CLUSTER] = next(iter(read.values())), {}
            if code := run_quietly(lambda: _read_cluster(names, read[_CLUSTER], values)):
                return code
    except KcrError as error:
        click.echo(f"kcr: {error}", err=True)
        return 2
    return _told(list(_differences(read[old], read[new])), output)


def _definitions(source: str) -> Definitions:
    """Return the definitions of a source by name.

    Raises:
        ConfigError: It cannot be read, has none, or has one that an API server would refuse.
    """
    documents = [one for one in _documents(source) if one.kind == _KIND]
    if not documents:
        raise ConfigError(f"{source}: no {_KIND} in it: name a file that has one")
    # Imports the API server.
    from kcr_devcluster.generators.checking import check_documents  # noqa: PLC0415

    for one in check_documents(documents, DEFAULT).problems:
        raise ConfigError(f"{one.document.title}: {one.field}: {one.message}: see kcr crd check")
    return {one.manifest["metadata"]["name"]: one.manifest for one in documents}


def _documents(source: str) -> Iterable[Document]:
    revision, _, path = source.partition(":")
    if not path or path.startswith("//") or Path(source).exists():
        return read_documents(source)
    try:
        shown = subprocess.run(["git", "show", source], check=False, capture_output=True, timeout=_GIT_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"{source}: git cannot be run: {error}: name a file") from error
    if shown.returncode:
        said = shown.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise ConfigError(f"{source}: {said}: name a file of the revision {revision}, from its root or as ./FILE")
    return tuple(documents_in(source, shown.stdout.decode(errors="replace")))


async def _read_cluster(names: Iterable[str], found: Definitions, values: Mapping[str, Any]) -> int:
    """Add those of the definitions that a cluster has; return the exit code."""
    async with connected({**values, "namespace": ""}) as (client, _, _):
        for name in names:
            with suppress(NotFoundError):
                found[name] = msgspec.json.decode(codec.encode(await client.get(_Definition, Key("", name))))
    return 0


def _differences(old: Definitions, new: Definitions) -> Iterator[Difference]:
    for name in sorted({*old, *new}):
        if name not in new:
            removed = Change("", "", "removed: its objects are deleted with it", "keep it until there are none")
            yield Difference(name, removed)
        elif name not in old:
            yield Difference(name, Change("", "", "added"))
        else:
            yield from (Difference(name, change) for change in changes(old[name], new[name]))


def _told(found: list[Difference], output: str | None) -> int:
    """Print the changes, the breaking ones first, and return the exit code."""
    found.sort(key=lambda one: not one.change.is_breaking)
    breaking = sum(one.change.is_breaking for one in found)
    if output:
        show({"breaking": breaking, "changes": [_as_json(one) for one in found]}, output)
    else:
        for one in found:
            click.echo(printable(_line(one)))
        click.echo(f"{counted(breaking, 'breaking change')}, {len(found) - breaking} other")
    return 1 if breaking else 0


def _line(one: Difference) -> str:
    change = one.change
    place = " ".join(filter(None, (one.definition, change.version, change.path)))
    return f"breaking: {place}: {change.what}; {change.remedy}" if change.is_breaking else f"{place}: {change.what}"


def _as_json(one: Difference) -> dict[str, Any]:
    change = one.change
    return {
        "definition": one.definition, "version": change.version, "path": change.path, "what": change.what,
        "breaking": change.is_breaking, "remedy": change.remedy,
    }  # fmt: skip
