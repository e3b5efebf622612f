"""The options of kcr's commands, for shells that complete them: `python -m tools.completions` writes the table.

A command is imported to be run, and most of them import a client. A shell that completes options waits for that, so it
reads `kcr/cli/completions.json` in its place, and for the commands of kcr-devcluster the table in that package. `make
test` compares the tables with the commands.
"""

import json
import re
from collections.abc import Iterable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click

from kcr.app.fields import PATHS, OptionField
from kcr.app.plugins import VARIABLES, find_plugins, variables_of, variables_of_options
from kcr.cli.main import COMMANDS, cli

_ROOT = Path(__file__).parents[1]
# The tables by the package that carries the commands, or their modules.
TABLES = {
    "kcr": _ROOT / "kcr" / "cli" / "completions.json",
    "kcr_devcluster": _ROOT / "devcluster" / "kcr_devcluster" / "completions.json",
}


def table(package: str) -> str:
    """Return the table of a package, one command a line; kcr's has the help of all commands."""
    homes = {point.name: point.value.partition(".")[0] for point in entry_points(group="kcr.commands")}
    commands = {
        name: _command(one) if homes.get(name, "kcr") == package else {"help": _help_of(one)}
        for name, one in _commands().items()
        if package in ("kcr", homes.get(name))
    }
    lines = [f"{json.dumps(name)}:{json.dumps(one, separators=(',', ':'))}" for name, one in commands.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def variables() -> str:
    """Return the variables of all commands, and of kcr's own controllers, one a line."""
    plugins = [point.name for point in entry_points(group="kcr.controllers") if point.value.startswith("kcr.")]
    found = set(variables_of(find_plugins(tuple(plugins))))
    for command in _commands().values():
        found.update(variables_of_options(command, None))
    return "".join(f"{name}\n" for name in sorted(found))


def _commands() -> dict[str, click.Command]:
    """Return the commands of kcr and kcr-devcluster by name."""
    context, own = click.Context(cli), ("kcr.", "kcr_devcluster.")
    points = {point.name for point in entry_points(group="kcr.commands") if point.value.startswith(own)}
    found = {name: cli.get_command(context, name) for name in sorted({*COMMANDS, *points})}
    return {name: one for name, one in found.items() if one is not None}


def _command(command: click.Command) -> dict[str, Any]:
    found: dict[str, Any] = {"help": _help_of(command)}
    if isinstance(command, click.Group):
        found["commands"] = {name: _command(one) for name, one in command.commands.items()}
    if command.params or not isinstance(command, click.Group):
        found["parameters"] = [_parameter(one) for one in command.params if not getattr(one, "hidden", False)]
    return found


def _help_of(command: click.Command) -> str:
    return command.get_short_help_str(limit=100)


def _parameter(parameter: click.Parameter) -> str:
    """Return a parameter as one text: spellings, help, kind, completer, path, choices."""
    completer = parameter._custom_shell_complete  # the function that a command has given
    path, choices = _values(parameter.type)
    assert completer is None or completer.__module__ == "kcr.cli.completers", parameter
    spellings, text, kind = [], "", str(parameter.nargs)
    if isinstance(parameter, click.Option):
        sides = (parameter.opts, parameter.secondary_opts)
        spellings = [*parameter.opts[:-1], "/".join(one[-1] for one in sides if one)]
        text, kind = _short(parameter.help or ""), "flag" if parameter.is_flag else "many" if parameter.multiple else ""
    fields = (",".join(spellings), text, kind, getattr(completer, "__name__", ""), path, ",".join(choices))
    return "|".join(fields).rstrip("|")


def _short(text: str) -> str:
    """Return the beginning of a help, for the list that a shell shows."""
    assert "|" not in text, text
    return re.split(r"(?<=.{14})[:;.] |(?<=.{20})(, | (?=\(|such as|if|unless|instead))|[.]$", text)[0]


def _values(kind: Any) -> tuple[str, Iterable[str]]:
    """Return which paths a value may be, and the values to choose from."""
    match kind:
        case click.Choice():
            return "", kind.choices
        case _ if isinstance(field := getattr(kind, "field", None), OptionField):
            return PATHS.get(field.flag.metavar, ""), field.choices
        case click.Path():
            return "dir" if kind.dir_okay and not kind.file_okay else "file", ()
    return "", ()


def main() -> None:
    """Write the tables."""
    VARIABLES.write_text(variables(), encoding="utf-8")
    for package, path in TABLES.items():
        path.write_text(table(package), encoding="utf-8")


if __name__ == "__main__":
    main()
