"""The command line of programs with `kcr.run`: the options of `kcr run` that are not those of its controllers."""

import inspect
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from kcr.app.logs import configure_logs, flush_stderr
from kcr.app.plugins import Setup
from kcr.app.run import Settings, run
from kcr.cli import options as shared
from kcr.cli.main import explain, open_standard_streams, single


def run_program(setup: Setup, args: Sequence[str] | None, defaults: Mapping[str, Any]) -> None:
    """Run the controllers of a program, with the options and variables that it shares with `kcr run`.

    Args:
        setup: Adds the controllers to a manager.
        args: The arguments to read options from; None for those of the command line.
        defaults: Values by parameter name, for what neither an option nor a variable says.

    Raises:
        SystemExit: The program cannot run, or was asked for its help.
    """
    name = Path(sys.argv[0]).name
    arguments = sys.argv[1:] if args is None else list(args)
    open_standard_streams()
    configure_logs(None, "info")
    try:
        code = _command(setup, defaults).main(arguments, prog_name=name, standalone_mode=False)
    except BaseException as error:
        code = explain(single(error), name, has_help=bool(arguments))
    flush_stderr()
    if code is not None:
        sys.exit(code)


def _command(setup: Setup, defaults: Mapping[str, Any]) -> click.Command:
    settings = {
        "auto_envvar_prefix": "KCR",
        "show_default": True,
        "help_option_names": ["-h", "--help"],
        "default_map": {name: value for name, value in defaults.items() if value is not None},
    }

    @click.command(context_settings=settings, help=inspect.getdoc(setup) or "Run controllers against an API server.")
    @shared.connection_options
    @shared.operation_options("info")
    def command(**values: Any) -> None:
        run(Settings(**values), lambda: {"the program": setup}, {})

    return command
