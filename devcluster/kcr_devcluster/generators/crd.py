"""`kcr crd generate`: CustomResourceDefinitions of the kinds that modules declare, as YAML."""

import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from kcr.api.crd import crd_manifest
from kcr.api.meta import Resource
from kcr.app.faults import import_fault
from kcr.atomicfile import replace_files
from kcr.cli.output import unwritable
from kcr.errors import ConfigError
from kcr.serving.webhooks.conversion import Conversions, WebhookService, is_registered_in
from kcr_devcluster.generators.check import check
from kcr_devcluster.generators.diff import diff
from kcr_devcluster.generators.migration import migrate
from kcr_devcluster.generators.review import losses, unguarded
from kcr_devcluster.generators.webhooks import service_options
from kcr_devcluster.webhook_manifests import with_conversion
from kcr_devcluster.yaml_writer import yaml_text

# So many lost fields are named.
_MOST_NAMED = 6

# One kind in all its versions.
Versions = tuple[type[Resource], ...]


@click.group("crd")
def command() -> None:
    """Make, check, compare and migrate CustomResourceDefinitions."""


command.add_command(check)
command.add_command(diff)
command.add_command(migrate)


@command.command(
    "generate",
    short_help="Write CustomResourceDefinitions of classes.",
    epilog="Exit codes: 0, 1 when a class cannot be one or --check finds a difference, 2.",
)
@click.argument("modules", nargs=-1, required=True, metavar="MODULE[:KIND]…")
@click.option(
    "-o", "--output", default="-", show_default=True, metavar="DIR",
    help="Folder to write <group>_<plural>.yaml to, one file for each kind; `-` for stdout.",
)  # fmt: skip
@click.option(
    "--check", "is_check", is_flag=True, help="Write nothing; fail when a file in DIR is not what would be written."
)
@service_options
def generate(modules: tuple[str, ...], output: str, *, is_check: bool, service: WebhookService) -> None:
    """Write the CustomResourceDefinitions of the kinds that modules declare.

    A MODULE is named as in an import, or by its file; the folder you are in is searched first. KIND takes one of its
    kinds. Without it all of them are taken: classes with api_version= of a group of your own.

    Versions that functions of @kcr.converts convert have a conversion webhook at --service. Such a function may be in
    another MODULE.

    Warnings name fields that get lost between versions, and rules that fail where a field is absent.
    """
    if is_check and output == "-":
        raise click.UsageError("--check compares files: name their folder with -o")
    manifests = {file_name(versions): manifest_of(versions, service) for versions in kinds_in_all(modules)}
    _refuse_invalid(manifests.values())
    texts = {name: yaml_text(manifest) for name, manifest in manifests.items()}
    for manifest in manifests.values():
        for words in _warnings(manifest):
            click.echo(f"Warning: {words}", err=True)
    if output == "-":
        click.echo("---\n".join(texts.values()), nl=False)
    elif is_check:
        _check(Path(output), texts)
    else:
        _write(Path(output), texts)


def kinds_in_all(modules: Iterable[str]) -> list[Versions]:
    """Return the kinds that modules declare; each module may have some versions of a kind."""
    merged: dict[str, dict[type[Resource], None]] = {}
    for module in modules:
        for versions in kinds_in(module):
            merged.setdefault(file_name(versions), {}).update(dict.fromkeys(versions))
    return [tuple(versions) for versions in merged.values()]


def kinds_in(reference: str, *, foreign: bool = False) -> Iterator[Versions]:
    """Yield the kinds that a module, or a module of a package, declares.

    Args:
        reference: A module, or `MODULE:KIND` for one of its kinds.
        foreign: Whether kinds of Kubernetes' own groups are meant, too.

    Raises:
        ConfigError: It cannot be imported, or declares no such kind.
    """
    name, _, wanted = reference.partition(":")
    module = _imported(name)
    kinds: dict[tuple[str, str], dict[type[Resource], None]] = {}
    for one in vars(module).values():
        if isinstance(one, type) and issubclass(one, Resource) and _is_of(module, one, foreign=foreign):
            kinds.setdefault((one.resource.group, one.resource.kind), {})[one] = None
    taken = [tuple(versions) for (_, kind), versions in kinds.items() if wanted in ("", kind)]
    if not taken and (wanted or not is_registered_in(module.__name__)):
        declared = ", but " + ", ".join(kind for _, kind in kinds) if kinds else ""
        raise ConfigError(
            f"{name} declares no kind {wanted}".rstrip()
            + f"{'' if foreign else ' of a group of your own'}{declared}: a "
            'kind is `class Website(kcr.Resource, api_version="example.dev/v1", plural="websites")`'
        )
    yield from taken


def file_name(versions: Versions) -> str:
    """Return the name of a kind's file: `example.dev_websites.yaml`, as controller-gen has it."""
    resource = versions[0].resource
    return f"{resource.group}_{resource.plural}.yaml"


def manifest_of(versions: Versions, service: WebhookService) -> dict[str, Any]:
    """Return the CustomResourceDefinition of a kind.

    Args:
        versions: The classes of its versions.
        service: Of the conversion webhook, where functions convert the versions.

    Raises:
        ConfigError: The classes cannot be one.
    """
    try:
        manifest, conversions = crd_manifest(*versions), Conversions.of(*versions)
    except TypeError as error:
        raise ConfigError(str(error)) from error
    if conversions is None:
        return manifest
    missing = [one for one in conversions.versions if one not in versions]
    if missing:
        one = missing[0]
        raise ConfigError(
            f"{versions[0].__name__} is converted to {one.__name__}, which is not named: name the module "
            f"{one.__module__}, too, or remove the functions of @kcr.converts"
        )
    return with_conversion(manifest, service)


def _refuse_invalid(manifests: Iterable[Mapping[str, Any]]) -> None:
    """Refuse definitions that an API server refuses, as `kcr dev` and `kcr crd check` do.

    Raises:
        ConfigError: One is refused; the message has all errors.
    """
    # Imports the API server's engine, which the help and `migrate` need not wait for.
    from kcr_devcluster.apiserver.kinds.definitions.strategy import (  # noqa: PLC0415
        CustomResourceDefinitionStrategy,
    )

    strategy = CustomResourceDefinitionStrategy()
    for manifest in manifests:
        defaulted = deepcopy(dict(manifest))
        strategy.default(defaulted)
        strategy.prepare_create(defaulted)
        if errors := strategy.validate(defaulted):
            said = "; ".join(f"{one.field}: {one.message}" for one in errors)
            raise ConfigError(f"{manifest['metadata']['name']}: the API server would refuse it: {said}")


def _warnings(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each silent trap of a definition."""
    name = manifest["metadata"]["name"]
    for loss in losses(manifest):
        fields = ", ".join(loss.fields[:_MOST_NAMED])
        if len(loss.fields) > _MOST_NAMED:
            fields += f" and {len(loss.fields) - _MOST_NAMED} more"
        if loss.is_stored:
            verb, values = ("is", "its values") if len(loss.fields) == 1 else ("are", "their values")
            missing = f"{fields} of {loss.version} {verb} missing in the stored version {loss.other}"
            lost = f"{missing}: {values} are dropped on write"
        else:
            lost = f"{loss.other} has not {fields} of the stored version {loss.version}: updates through it remove them"
        yield f"{name}: {lost}: give all versions the same fields, or convert them with @kcr.converts"
    for one in unguarded(manifest):
        place = f"of {one.place}" if one.place else "of the object"
        yield (
            f"{name}, {one.version}: the rule `{one.rule}` {place} fails where {one.selection} is absent: "
            f"begin it with `!has({one.selection}) ||`, or give the field a default"
        )


def _is_of(module: ModuleType, kind: type[Resource], *, foreign: bool) -> bool:
    """Return whether a class is a kind of this module, or of a module below it, and of no group of Kubernetes."""
    if not hasattr(kind, "resource") or not f"{kind.__module__}.".startswith(f"{module.__name__}."):
        return False
    return foreign or ("." in kind.resource.group and not kind.resource.group.endswith(".k8s.io"))


def _imported(name: str) -> ModuleType:
    folder, module = Path.cwd(), name
    if name.endswith(".py"):
        folder, module = Path(name).parent.resolve(), Path(name).stem
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(module)
    except Exception as error:
        # Whatever a module may raise while it is imported: the user needs its name, not our stack.
        fault = import_fault(error, module, "name a module as in an import, or its file")
        raise ConfigError(f"{name} cannot be imported: {fault}") from error
    finally:
        sys.path.remove(str(folder))


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files to a folder, which is made where it is missing: all of them, or none when there is no room.

    Raises:
        ConfigError: One cannot be written.
    """
    with unwritable("name a folder that can be written"):
        folder.mkdir(parents=True, exist_ok=True)
        replace_files({folder / name: text.encode() for name, text in texts.items()})


def _check(folder: Path, texts: dict[str, str]) -> None:
    differing = [str(folder / name) for name, text in texts.items() if _text_of(folder / name) != text]
    if differing:
        raise ConfigError(f"{_listed(differing)} not what the classes say: run this command without --check")


def _text_of(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _listed(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last} are" if most else f"{last} is"
