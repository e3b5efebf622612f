"""The command line of `kcr rehearse`. Slow imports are in `program`."""

import importlib
from pathlib import Path
from typing import Any

import click

from kcr.cli import options as shared

_path = click.Path(path_type=Path)


@click.command(
    "rehearse",
    epilog="Exit codes: 0, 1 when NEW deletes or replaces what OLD keeps, 2 when something cannot be read or run.",
)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), metavar="SNAPSHOT")
@click.option(
    "--old", required=True, type=_path, metavar="DIR", help="Virtual environment of the present version, or its Python."
)
@click.option(
    "--new", required=True, type=_path, metavar="DIR", help="Virtual environment of the next version, or its Python."
)
@click.option(
    "--for", "duration", default="1h", show_default=True, metavar="DURATION", callback=shared.optional_seconds,
    help="How long both run, in virtual time.",
)  # fmt: skip
@click.option(
    "--controllers",
    default=None,
    metavar="NAME[,NAME…]",
    show_default="those of the snapshot",
    help="Controllers to run.",
)
@click.option(
    "--new-crds", multiple=True, type=_path, metavar="FILE",
    help="Definitions that come with the next version: a file or a folder. May be repeated.",
)  # fmt: skip
@click.option(
    "--timeout", default="10m", show_default=True, metavar="DURATION", callback=shared.optional_seconds,
    help="How long each version may take, in real time.",
)  # fmt: skip
@click.option("-o", "--output", type=click.Choice(["json", "html"]), help="Print one JSON object, or a page.")
def command(file: Path, **values: Any) -> int:
    """Compare two versions of controllers on a snapshot.

    Each runs in its own process and interpreter, with a cluster of its own whose nodes are simulated. Modules of
    --controllers are searched in the folder of the environment as well. Nothing is written to a real cluster.

    \b
    Example:
      kcr snapshot --context prod --controllers operator:setup -o prod.kcr
      kcr rehearse prod.kcr --old old/.venv --new new/.venv --for 2h
    """  # noqa: D301 - click's mark for lines that are kept
    program = importlib.import_module("kcr_devcluster.rehearsal.program")
    return program.rehearse_upgrade(file, values)  # type: ignore[no-any-return]  # an int
