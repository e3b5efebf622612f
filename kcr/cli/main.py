"""The entry point of the command line."""

import os
import sys
from pathlib import Path

import click

from kcr.app.faults import run_command
from kcr.cli.commands import Commands
from kcr.log.lines import flush_stderr


@click.group(cls=Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kcr")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Kubernetes controllers in Python."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main() -> None:
    """Run the command line and exit."""
    if "_KCR_COMPLETE" not in os.environ:
        # A completion logs nothing, and a shell waits for it.
        from kcr.app.logs import configure_logs, open_standard_streams  # noqa: PLC0415  # imports structlog, and rich

        open_standard_streams()
        configure_logs(None, "info")
    code = exit_code_of(sys.argv[1:])
    flush_stderr()
    sys.exit(code)


def exit_code_of(arguments: list[str]) -> int:
    """Run one command, print an error as one line on stderr, and return the exit code."""
    return run_command(cli, arguments, _program_name(), "kcr") or 0


def _program_name() -> str:
    """Return how the command was called: as a plugin of kubectl it is `kubectl kcr`."""
    return "kubectl kcr" if Path(sys.argv[0]).name.startswith("kubectl-kcr") else "kcr"
