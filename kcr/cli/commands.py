"""The commands: kcr's own, and those that installed packages add as entry points of the group `kcr.commands`."""

import importlib
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple, NoReturn

import click
from click.shell_completion import CompletionItem

from kcr.app.faults import import_fault
from kcr.cli.completers import outline, outlines
from kcr.errors import ConfigError


class _Entry(NamedTuple):
    """A command: the module that has it, and its line in the help."""

    module: str
    summary: str


# A module is imported when its command is called: `kcr run` never imports `kcr wait`.
COMMANDS: Mapping[str, _Entry] = {
    "check": _Entry("check", "Check a cluster before controllers run on it."),
    "completion": _Entry("completion", "Print what a shell needs to complete commands."),
    "debug": _Entry("debug.commands", "Look into a running kcr: an archive, a profile, its stacks."),
    "events": _Entry("objects.events", "Show events, of a Job with those of its pods."),
    "explain": _Entry("objects.explain", "Explain why an object is where it is, and what happens next."),
    "jobs": _Entry("objects.jobs", "Show all Jobs by state and cause."),
    "logs": _Entry("objects.logs", "Print the logs of all pods of a Job."),
    "reconcile": _Entry("objects.reconcile", "Let the controllers of an object reconcile it now."),
    "rerun": _Entry("objects.rerun", "Run an ended Job again, or the indexes of it that have not succeeded."),
    "run": _Entry("run", "Run controllers against a Kubernetes API server."),
    "run-now": _Entry("objects.run_now", "Start a Job of a CronJob now, beside its schedule."),
    "shards": _Entry("objects.shards", "Show which replica holds which shard of a program."),
    "version": _Entry("version", "Print the versions of kcr and of what it stands on."),
    "wait": _Entry("objects.wait", "Wait until Jobs have ended, whichever way."),
}

# Those of kcr-devcluster, which need not be installed, with their lines in the help: help imports no command.
EMBEDDED: Mapping[str, str] = {
    "crd": "Make CustomResourceDefinitions of classes; migrate stored objects.",
    "dev": "Try it: a cluster in this process, its controllers, and your manifests.",
    "init": "Make a project of your own: a kind, its controller, and tests that pass.",
    "kubeconfig": "Make kubeconfigs for service accounts and users.",
    "policy": "Make admission policies of classes, for kinds of others.",
    "rbac": "Make roles with exactly the rights of controllers.",
    "snapshot": "Save and restore the state of `kcr dev --data-dir`.",
    "types": "Make typed classes of CustomResourceDefinitions and built-in kinds.",
    "webhooks": "Make webhook configurations of controllers.",
}


class Commands(click.Group):
    """The group of all commands; imports each when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, those of installed packages among them."""
        return sorted({*COMMANDS, *EMBEDDED, *_added()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, None for no such name.

        Raises:
            ConfigError: The package that adds it cannot be imported, or adds something else.
        """
        if ctx.resilient_parsing and cmd_name in outlines():
            return outline(cmd_name, outlines()[cmd_name])
        if cmd_name in COMMANDS:
            command = importlib.import_module(f"kcr.cli.{COMMANDS[cmd_name].module}").command
            assert isinstance(command, click.Command)
            return command
        point = _added().get(cmd_name)
        if point is not None and (cmd_name not in EMBEDDED or _is_importable(point)):
            return _loaded(point)
        return _absent(cmd_name) if cmd_name in EMBEDDED else None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands and options that begin so; no command is imported for its line of help."""
        summaries = {**{name: entry.summary for name, entry in COMMANDS.items()}, **EMBEDDED}
        names = (name for name in self.list_commands(ctx) if name.startswith(incomplete))
        found = [CompletionItem(name, help=summaries.get(name)) for name in names]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names with their summaries."""
        rows = {**{name: entry.summary for name, entry in COMMANDS.items()}, **EMBEDDED}
        for name, point in _added().items():
            if name not in rows:
                try:
                    rows[name] = _loaded(point).get_short_help_str(formatter.width)
                except ConfigError as error:
                    rows[name] = str(error)
        with formatter.section("Commands"):
            formatter.write_dl(sorted(rows.items()))


def _added() -> dict[str, EntryPoint]:
    """Return the commands of installed packages by name; none may take the name of one of kcr's own."""
    return {point.name: point for point in entry_points(group="kcr.commands") if point.name not in COMMANDS}


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
        raise ConfigError(f"command {point.name}: {point.value} is no click.Command: correct the entry point")
    return command


def _absent(name: str) -> click.Command:
    """Return a command whose only effect is the line that names the extra, whatever its arguments are."""

    def refuse(arguments: tuple[str, ...]) -> NoReturn:
        raise ConfigError(f"kcr {name} needs the extra 'embedded': pip install 'kcr[embedded]'")

    return click.Command(
        name, callback=refuse, params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
        short_help=EMBEDDED[name], add_help_option=False, context_settings={"ignore_unknown_options": True},
    )  # fmt: skip
