"""`kcr types generate`: typed classes of CustomResourceDefinitions and of built-in kinds."""

from collections.abc import Iterable

import click

from kcr.cli.output import write_output
from kcr.errors import ConfigError
from kcr_devcluster.codegen.crds import crd_classes
from kcr_devcluster.codegen.model import Class, flat
from kcr_devcluster.codegen.render import module_text
from kcr_devcluster.manifests import EXTENSIONS, read_documents


@click.group("types")
def command() -> None:
    """Make typed classes."""


@command.command("generate", epilog="Exit codes: 0, 1 when a class cannot be made of a schema, 2 on a wrong option.")
@click.argument("sources", nargs=-1, required=True, metavar="FILE|KIND…")
@click.option(
    "--version", default="", metavar="NAME", show_default="the stored one",
    help="Version of a CustomResourceDefinition; `all` for all of them.",
)  # fmt: skip
@click.option("-o", "--output", default="-", show_default=True, metavar="FILE", help="Module to write; `-` for stdout.")
def generate(sources: tuple[str, ...], version: str, output: str) -> None:
    """Write a module of typed classes.

    A FILE, or a URL of one, has CustomResourceDefinitions; `-` is stdin. A KIND is one of Kubernetes' own, such as
    apps/v1/Deployment: with kcr's extra `schema` its docstrings are those of Kubernetes. `kcr.api.full` has the most
    usual ones already.
    """
    files = [one for one in sources if one == "-" or one.endswith(EXTENSIONS)]
    found = {one.name: one for one in _builtin_classes([one for one in sources if one not in files])}
    for path in files:
        _add_definitions(path, version, found)
    text = module_text(_title(found.values()), found.values(), "kcr types generate")
    write_output(output, text.encode())


def _builtin_classes(names: list[str]) -> list[Class]:
    kinds = [_split(name) for name in names]
    from kcr_devcluster.builtin_types import classes_of_kinds  # noqa: PLC0415  # definitions need no API server's schema

    return classes_of_kinds(kinds)


def _split(name: str) -> tuple[str, str]:
    api_version, _, kind = name.rpartition("/")
    if not api_version or not kind:
        raise click.UsageError(f"{name!r} is neither a file nor a kind: name a *.yaml, or one as apps/v1/Deployment")
    return api_version, kind


def _add_definitions(path: str, version: str, found: dict[str, Class]) -> None:
    definitions = [one.manifest for one in read_documents(path) if one.kind == "CustomResourceDefinition"]
    if not definitions:
        raise ConfigError(f"{path} has no CustomResourceDefinition: name a file with one, or a kind of Kubernetes")
    for manifest in definitions:
        try:
            crd_classes(manifest, version, found)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error


def _title(classes: Iterable[Class]) -> str:
    """Return the first line of the module's docstring: the kinds in it, or how many there are."""
    kinds = [one for one in classes if one.base == "FullResource"]
    title = f"Types of {', '.join(f'{_api_version(one)} {one.name}' for one in kinds)}."
    return title if len(title) < 100 else f"Types of {len(kinds)} kinds."


def _api_version(kind: Class) -> str:
    return next(flat(pair.value) for pair in kind.keywords if pair.name == "api_version").strip('"')
