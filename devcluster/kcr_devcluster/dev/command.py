"""The command line of `kcr dev`. Slow imports are in `program`."""

import importlib
import sys
from typing import Any

import click

from kcr.app.fields import options
from kcr.app.logs import configure_logs
from kcr.app.options import PluginOptions
from kcr.cli import options as shared
from kcr_devcluster.dev.options import COMMAND_LINE, CONTROLLERS, DevOptions

_PLUGINS = ("controllers", "workers", "feature_gates")


@click.command(
    "dev",
    epilog="Exit codes: 0 when all Jobs completed or without --wait, 1 when one failed, 2 on a wrong option.",
)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    envvar="KCR_DEV_FILES",
    help="Manifests to apply: a file, a folder or a URL; `-` is stdin. May be repeated.",
)
@options(DevOptions, *COMMAND_LINE, prefix="KCR_DEV_", runtime="process")
@shared.plugin_options(*_PLUGINS, words={"controllers": ",".join(CONTROLLERS)})
@shared.program_options("log_format", "log_level", words={"log_format": "lines as all others"}, log_level="warning")
def command(*, files: tuple[str, ...], log_format: str | None, log_level: str, **values: Any) -> int:
    """Start a cluster, run controllers, apply files, show progress.

    Your own controllers are added to the default, unless the list names some of kcr's own. Logs of the pods go to
    stdout, everything else to stderr.
    """
    configure_logs(log_format or "plain", log_level)
    plugins = PluginOptions(**{name: values.pop(name) for name in _PLUGINS}, take_over=True)
    made = DevOptions(**values)
    title = f"kcr dev: a cluster in this process, until {'its Jobs have ended' if made.wait else 'Ctrl-C'}"
    if sys.stderr.isatty():
        # First of all: importing and starting the cluster takes a second, and a blank screen looks broken.
        click.echo(title, err=True)
        title = ""
    program = importlib.import_module("kcr_devcluster.dev.program")
    return program.start(title, made, plugins, files)  # type: ignore[no-any-return]  # an int
