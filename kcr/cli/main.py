"""The entry point of the command line, and its commands.

They are kcr's own, and those that installed packages add as entry points of the group `kcr.commands`.
"""

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from textwrap import shorten
from typing import NoReturn

import click
from click.shell_completion import CompletionItem, ShellComplete

from kcr.app.faults import import_fault, run_command
from kcr.cli.completers import outline, outlines
from kcr.errors import ConfigError
from kcr.log.lines import flush_stderr

# As of kubectl: do not complete the names of files.
_NO_FILES = 4

# The modules of the host's commands, each imported when it is called: `kcr run` never imports `kcr explain`.
COMMANDS: Mapping[str, str] = {
    "check": "check", "completion": "completers", "debug": "debug.commands", "explain": "objects.explain",
    "reconcile": "objects.reconcile", "run": "run", "shards": "objects.shards", "version": "version",
}  # fmt: skip


# The groups of the help.
_GROUPS: Mapping[str, Sequence[str]] = {
    "Run": ("run", "check"),
    "Develop": ("dev", "init", "snapshot", "rehearse"),
    "Look": ("jobs", "cronjobs", "events", "logs", "explain", "wait", "shards", "debug", "version"),
    "Repair": ("reconcile", "rerun", "run-now"),
    "Generate": ("crd", "rbac", "webhooks", "policy", "types", "kubeconfig", "completion"),
}
# Around the names in the help.
_INDENT = 4


class Commands(click.Group):
    """The group of all commands; imports each when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, those of installed packages among them."""
        return sorted({*COMMANDS, *outlines(), *_added()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, None for no such name.

        Raises:
            ConfigError: The package that adds it cannot be imported, or adds something else.
        """
        is_known, point = cmd_name in outlines(), _added().get(cmd_name)
        if is_known and cmd_name not in COMMANDS and (point is None or not _is_importable(point)):
            return _absent(cmd_name)
        if is_known and ctx.resilient_parsing:
            return outline(cmd_name)
        if cmd_name in COMMANDS:
            command = importlib.import_module(f"kcr.cli.{COMMANDS[cmd_name]}").command
            assert isinstance(command, click.Command)
            return command
        return _loaded(point) if point is not None else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments begin with.

        Raises:
            NoSuchCommand: There is none; the message has those that are spelled alike.
        """
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            names = self.list_commands(ctx)
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=names, ctx=ctx) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands and options that begin so; no command is imported for its line of help."""
        names = (name for name in self.list_commands(ctx) if name.startswith(incomplete))
        found = [CompletionItem(name, help=_summaries().get(name)) for name in names]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names with their summaries, in groups, a line each."""
        rows = _summaries()
        for name, point in _added().items():
            if name not in rows:
                try:
                    rows[name] = _loaded(point).get_short_help_str(formatter.width)
                except ConfigError as error:
                    rows[name] = str(error)
        groups = {**_GROUPS, "Others": sorted(set(rows).difference(*_GROUPS.values()))}
        width = formatter.width - max(map(len, rows)) - _INDENT
        for group, names in groups.items():
            if found := [(name, shorten(rows[name], width, placeholder="…")) for name in names if name in rows]:
                with formatter.section(group):
                    formatter.write_dl(found)


def _summaries() -> dict[str, str]:
    """Return the lines in the help by name: help imports no command of kcr or kcr-devcluster."""
    return {name: found["help"] for name, found in outlines().items()}


def _added() -> dict[str, EntryPoint]:
    """Return the commands of installed packages by name; none may take the name of one of kcr's own."""
    points = sorted(
        entry_points(group="kcr.commands"), key=lambda point: point.value.startswith(("kcr.", "kcr_devcluster."))
    )
    return {point.name: point for point in points if point.name not in COMMANDS}


def _is_importable(point: EntryPoint) -> bool:
    try:
        importlib.import_module(point.module.partition(".")[0])
    except ModuleNotFoundError:
        return False
    return True


def _loaded(point: EntryPoint) -> click.Command:
    try:
        command = point.load()
    except Exception as error:
        hint = "reinstall the package that adds it, or remove it"
        raise ConfigError(f"command {point.name}: {import_fault(error, point.module, hint)}") from error
    if not isinstance(command, click.Command):
        raise ConfigError(f"command {point.name}: {point.value} is not a click.Command: correct the entry point")
    return command


def _absent(name: str) -> click.Command:
    """Return a command of kcr-devcluster, which is not installed: it only names the extra."""

    def refuse(arguments: tuple[str, ...]) -> NoReturn:
        raise ConfigError(f"kcr {name} needs the extra 'embedded': pip install 'kcr[embedded]'")

    return click.Command(
        name, callback=refuse, params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
        short_help=_summaries()[name], add_help_option=False, context_settings={"ignore_unknown_options": True},
    )  # fmt: skip


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


def kubectl_complete() -> None:
    """Complete `kubectl kcr …`: the program `kubectl_complete-kcr`, which kubectl calls with the words so far.

    Source: kubernetes/staging/src/k8s.io/kubectl/pkg/cmd/plugin/plugin_completion.go.
    """
    *words, incomplete = sys.argv[1:] or [""]
    for item in ShellComplete(cli, {}, "kcr", "_KCR_COMPLETE").get_completions(words, incomplete):
        click.echo(item.value)
    click.echo(f":{_NO_FILES}")
