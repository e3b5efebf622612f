"""`kcr dev`: its options. What is slow to import is in `program`."""

import importlib
import sys
from pathlib import Path
from typing import Any

import click

from kcr.app.logs import configure_logs
from kcr.cli import options as shared


@click.command(
    "dev",
    context_settings={"auto_envvar_prefix": "KCR_DEV", "show_default": True},
    epilog="Exit codes: 0 when all Jobs completed or without --wait, 1 when one failed, 2 on a wrong option.",
)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    help="Manifests to apply: a file, folder or URL, `-` for stdin. May be repeated.",
)
@click.option("--wait", is_flag=True, help="End when all Jobs of the files have ended.")
@click.option(
    "--runtime",
    type=click.Choice(["process", "simulated"]),
    default="process",
    show_envvar=True,
    help="How the node runs containers: as processes of this machine, or not at all.",
)
@click.option(
    "--nodes",
    type=click.IntRange(1, 100),
    default=1,
    show_envvar=True,
    metavar="N",
    help="How many nodes there are. All run their containers on this machine.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_envvar=True,
    show_default="that of before with a data folder, else a free one",
    help="Port of the API server on 127.0.0.1.",
)
@click.option(
    "--debug-port",
    type=click.IntRange(0, 65535),
    default=0,
    show_envvar=True,
    show_default="a free one",
    metavar="N",
    help="Port of the page /debug/kcr on 127.0.0.1.",
)
@click.option("--no-debug-page", is_flag=True, help="Serve no such page.")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    show_envvar=True,
    show_default="in memory",
    help="Folder that keeps the objects, and how to reach the cluster, for the next start.",
)
@click.option(
    "--faults",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    show_envvar=True,
    help="Rules for what clients of the port meet: errors, lost replies, broken watches.",
)
@click.option(
    "--no-controllers",
    is_flag=True,
    help="Run no controllers, of Deployments, quotas and PodDisruptionBudgets neither: they run elsewhere.",
)
@shared.plugin_options("controllers", "workers", "feature_gates", controllers=("job", "ttl", "cronjob"))
@click.option(
    "--authorization",
    type=click.Choice(["always-allow", "rbac"]),
    default="always-allow",
    show_envvar=True,
    help="What the API server allows: every request, or what roles and bindings grant.",
)
@click.option("--legacy-apis", is_flag=True, help="Serve extensions/v1beta1 Jobs and batch/v1beta1 CronJobs too.")
@click.option(
    "--terminated-pod-gc-threshold",
    type=click.IntRange(min=0),
    default=12_500,
    show_envvar=True,
    metavar="N",
    help="Finished pods that may stay before the oldest are deleted; 0 for all.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    show_envvar=True,
    show_default="kubeconfig in the data folder; without one dev.kubeconfig in $XDG_RUNTIME_DIR/kcr or ~/.kcr",
    help="Where to write the kubeconfig.",
)
@shared.program_options("log_format", "log_level", words={"log_format": "lines as all others"}, log_level="warning")
def command(**values: Any) -> int:
    """Start a cluster, run the controllers, apply the files, show what happens.

    Logs of the pods go to stdout, everything else to stderr.
    """
    configure_logs(values["log_format"] or "plain", values["log_level"])
    title = f"kcr dev: a cluster in this process, until {'its Jobs have ended' if values['wait'] else 'Ctrl-C'}"
    if sys.stderr.isatty():
        # First of all: importing and starting the cluster takes a second, and a blank screen looks broken.
        click.echo(title, err=True)
        title = ""
    return importlib.import_module("kcr_devcluster.dev.program").start(title, values)  # type: ignore[no-any-return]  # an int
