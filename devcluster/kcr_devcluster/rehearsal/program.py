"""`kcr snapshot` of a live cluster."""

import os
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from kcr.app.options import PluginOptions
from kcr.app.plugins import choose_to_run, find_plugins
from kcr.app.rbac import declared_by
from kcr.cli.connection import connected, run_quietly
from kcr.cli.output import unwritable
from kcr.clock import SystemClock
from kcr.log.lines import printable
from kcr_devcluster.rehearsal.hiding import DataHider
from kcr_devcluster.rehearsal.snapshot_file import Head, write_snapshot
from kcr_devcluster.rehearsal.taking import counted, take, wanted_by


def snapshot(output: Path, values: Mapping[str, Any]) -> int:
    """Write what controllers watch and own in a live cluster to a file, and return the exit code.

    Args:
        output: The file.
        values: The options of the command.

    Raises:
        ConfigError: The cluster cannot be read, or the file cannot be written.
    """
    return run_quietly(lambda: _snapshot(output, values))


async def _snapshot(output: Path, values: Mapping[str, Any]) -> int:
    # As with roles: the named controllers alone.
    chosen = choose_to_run(PluginOptions(controllers=values["controllers"]), adds_own=False)
    wanted = wanted_by(declared_by(find_plugins(chosen), os.environ, values["namespace"]))
    async with connected(values) as (client, _, config):
        now = SystemClock().now()
        kubernetes = await client.server_version()
        taken = await take(client, wanted, DataHider(values["include_data"]))
    head = Head(
        kcr=version("kcr"), kubernetes=kubernetes, server=config.server, time=now, controllers=chosen,
        namespace=values["namespace"], data=tuple(sorted(values["include_data"])), kinds=taken.kinds,
        left_out=taken.left_out,
    )  # fmt: skip
    with unwritable("name a file that can be written"):
        head = write_snapshot(output, head, taken.objects)
    for words in taken.left_out:
        click.echo(printable(f"kcr snapshot: left out: {words}"), err=True)
    click.echo(printable(f"kcr snapshot: {output}: {', '.join(counted(head.kinds))}"), err=True)
    return 0
