"""`kcr snapshot`: the objects of controllers in a live cluster; with `save` and `restore` those of a data folder."""

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from kcr.cli import options as shared
from kcr_devcluster.apiserver.storage.journal import restore_snapshot, save_snapshot
from kcr_devcluster.cluster.datadir import JOURNAL, lock_folder

F = TypeVar("F", bound=Callable[..., Any])


@click.group(
    "snapshot",
    invoke_without_command=True,
    short_help="Read the objects of controllers, or copy those of `kcr dev`.",
    epilog="Exit codes: 0, 1 when the cluster cannot be read or FILE cannot be written, 2 on a wrong option.",
)
@shared.plugin_options("controllers")
@shared.program_options("kubeconfig", "context", "exec_plugins", "namespace")
@click.option(
    "--include-data", multiple=True, type=click.Choice(["secrets", "configmaps"]),
    help="Kinds whose data is kept; hashes stand for the data of the others. May be repeated.",
)  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="File to write.")
@click.pass_context
def command(ctx: click.Context, /, *, output: Path | None, **values: Any) -> int:
    """Read what controllers watch and own in a live cluster, for kcr rehearse; nothing is written to the cluster.

    Owners and children of the objects, their definitions and namespaces are read as well, a page at a time and at most
    five pages a second. Only you can read FILE.

    \b
    Examples:
      kcr snapshot --context prod --controllers operator:setup -o prod.kcr
      kcr snapshot save dev.db --data-dir dev
    """  # noqa: D301 - click's mark for lines that are kept
    if ctx.invoked_subcommand is not None:
        return 0
    if output is None:
        raise click.UsageError("name the file to write with -o, or one of the commands save and restore")
    taken = importlib.import_module("kcr_devcluster.rehearsal.program")
    return taken.snapshot(output, values)  # type: ignore[no-any-return]  # an int


def _data_dir(command: F) -> F:
    return click.option(
        "--data-dir",
        type=click.Path(path_type=Path, file_okay=False),
        required=True,
        metavar="DIR",
        envvar="KCR_DEV_DATA_DIR",
        show_envvar=True,
        help="The folder of kcr dev.",
    )(command)


_file = click.argument("file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")


@command.command(
    "save",
    short_help="Write the state of a cluster to a file.",
    epilog="Exit codes: 0, 1 when the state cannot be read or written, 2 on a wrong option.",
)
@_file
@_data_dir
def save(file: Path, data_dir: Path) -> None:
    """Write the objects in DIR to FILE, as they are at one moment; the cluster may be running.

    FILE has the Secrets in clear text, and only you can read it. If there is one, it is replaced as soon as the new one
    is whole.
    """
    save_snapshot(data_dir / JOURNAL, file)
    click.echo(f"kcr snapshot: saved to {file}", err=True)


@command.command(
    "restore",
    short_help="Make a data folder of such a file.",
    epilog="Exit codes: 0, 1 when FILE is damaged or DIR has a cluster, 2 on a wrong option.",
)
@_file
@_data_dir
def restore(file: Path, data_dir: Path) -> None:
    """Make DIR, a new folder for `kcr dev --data-dir`, of a FILE that `save` wrote.

    Its versions continue a billion higher, so that controllers relist and take no old object for a new one. Token
    and certificates are new.
    """
    lock = lock_folder(data_dir)
    try:
        restore_snapshot(file, data_dir / JOURNAL)
    finally:
        os.close(lock)
    click.echo(f"kcr snapshot: restored: start it with `kcr dev --data-dir {data_dir}`", err=True)
