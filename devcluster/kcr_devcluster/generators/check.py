"""`kcr crd check`: says whether definitions and objects would pass on a cluster, without one."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from kcr.cli.output import output_option, show
from kcr.errors import ConfigError
from kcr.log.lines import printable
from kcr_devcluster.manifests import read_documents
from kcr_devcluster.versions import DEFAULT, VERSIONS, KubernetesVersion

if TYPE_CHECKING:  # the API server, which only a run loads
    from kcr_devcluster.generators.checking import Checked, Finding


@click.command(
    "check",
    short_help="Check definitions and objects without a cluster.",
    epilog="Exit codes: 0 when all would pass, 1 when one would be refused, 2 when a file cannot be read.",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option(
    "--kubernetes-version",
    "version",
    type=click.Choice(VERSIONS),
    default=DEFAULT,
    show_default=True,
    help="The cluster's version.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings, too: kubectl refuses unknown fields.")
@output_option()
def check(files: tuple[str, ...], version: KubernetesVersion, output: str | None, *, strict: bool) -> int:
    """Check whether CustomResourceDefinitions and objects would pass on a cluster of Kubernetes 1.36 or 1.37.

    A FILE is YAML or JSON with any number of documents and lists, a folder of such files, a URL, or - for stdin. The
    definitions are validated first, with their CEL rules and their costs; then the objects, by the definitions in all
    files or, of built-in kinds, as such. Unknown and duplicate fields are warnings. No cluster is needed or asked;
    objects that are not in the files, such as a PriorityClass, do not exist.

    \b
    Examples:
      kcr crd check crd/ examples/
      kcr crd check --strict --kubernetes-version 1.37 crd.yaml website.yaml
      kustomize build config | kcr crd check -
    """  # noqa: D301 - click's mark for lines that are kept
    try:
        documents = [document for file in files for document in read_documents(file)]
    except ConfigError as error:
        click.echo(f"kcr: {error}", err=True)
        return 2
    # Imports the API server.
    from kcr_devcluster.generators.checking import check_documents  # noqa: PLC0415

    checked = check_documents(documents, version)
    if output:
        show(_as_json(checked), output)
    else:
        for line in _lines(checked):
            click.echo(printable(line))
    return 1 if checked.problems or (strict and checked.warnings) else 0


def _lines(checked: "Checked") -> Iterator[str]:
    for one in checked.findings:
        field = f"{one.field}: " if one.field else ""
        warning = "warning: " if one.is_warning else ""
        yield f"{one.document.title}: {warning}{field}{_in_one_line(one.message)}"
    for document in checked.unchecked:
        yield f"{document.title}: not checked: its definition has problems"
    found = counted(len(checked.problems), "problem"), counted(len(checked.warnings), "warning")
    said = f"{counted(checked.definitions, 'definition')} and {counted(checked.objects, 'object')} checked"
    yield f"{said}: {', '.join(found)}"


def counted(number: int, what: str) -> str:
    """Return a number with its noun."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def _in_one_line(message: str) -> str:
    """Return a message without the lines in which a caret shows a place: it has line and column."""
    return " ".join(line.strip() for line in message.splitlines() if not line.startswith(" | "))


def _as_json(checked: "Checked") -> dict[str, Any]:
    return {
        "problems": [_finding(one) for one in checked.problems],
        "warnings": [_finding(one) for one in checked.warnings],
        "notChecked": [one.title for one in checked.unchecked],
        "definitions": checked.definitions,
        "objects": checked.objects,
    }


def _finding(one: "Finding") -> dict[str, str]:
    manifest = one.document.manifest
    return {
        "source": one.document.source,
        "apiVersion": manifest["apiVersion"],
        "kind": one.document.kind,
        "namespace": manifest["metadata"].get("namespace") or "",
        "name": manifest["metadata"].get("name") or "",
        "field": one.field,
        "message": one.message,
    }
