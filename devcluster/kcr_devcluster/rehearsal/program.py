"""`kcr snapshot` of a live cluster, and `kcr rehearse`."""

import os
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import msgspec

from kcr.app.options import PluginOptions, names
from kcr.app.plugins import choose_to_run, find_plugins
from kcr.app.rbac import declared_by
from kcr.cli.connection import connected, run_quietly
from kcr.cli.output import unwritable
from kcr.clock import SystemClock
from kcr.errors import KcrError
from kcr.log.lines import printable
from kcr_devcluster.rehearsal.comparison import compare, conditions
from kcr_devcluster.rehearsal.hiding import DataHider
from kcr_devcluster.rehearsal.report import Report, as_html, as_json, as_text
from kcr_devcluster.rehearsal.snapshot_file import Head, read_snapshot, write_snapshot
from kcr_devcluster.rehearsal.taking import counted, take, wanted_by
from kcr_devcluster.rehearsal.versions import Plan, Version, rehearse


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


def rehearse_upgrade(file: Path, values: Mapping[str, Any]) -> int:
    """Run two versions on a snapshot, print what they do differently, and return the exit code.

    Args:
        file: The snapshot.
        values: The options of the command.
    """
    try:
        snapshot = read_snapshot(file)
        chosen = names(values["controllers"]) if values["controllers"] else snapshot.head.controllers
        old, new = values["old"], values["new"]
        plan = Plan(chosen, values["duration"], values["timeout"])
        versions = Version("old", old), Version("new", new, values["new_crds"])
        outcomes = rehearse(snapshot, versions, plan)
    except (KcrError, ValueError) as error:
        click.echo(printable(f"kcr: {error}"), err=True)
        return 2
    report = Report(
        msgspec.structs.replace(snapshot.head, controllers=chosen), plan.seconds, (str(old), str(new)),
        (outcomes[0], outcomes[1]), compare(snapshot, *outcomes), conditions(snapshot, *outcomes),
    )  # fmt: skip
    match values["output"]:
        case "json":
            click.echo(msgspec.json.encode(as_json(report)).decode())
        case "html":
            click.echo(as_html(report), nl=False)
        case _:
            for line in as_text(report):
                click.echo(printable(line))
    return 1 if report.breaks else 0
