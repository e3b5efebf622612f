"""`kcr run`, and the command line of programs with `kcr.run`.

Both run controllers against the API server that a kubeconfig, or the pod they run in, names. A program has the options
of `kcr run` but those of its controllers.
"""

import inspect
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from kcr.app.fields import given_as
from kcr.app.logs import configure_logs
from kcr.app.options import PluginOptions, ProgramOptions
from kcr.app.plugins import Setup, find_plugins
from kcr.app.run import run
from kcr.cli import options as shared
from kcr.cli.main import explain, open_standard_streams, single, warn_of_unknown_variables
from kcr.log import get_logger
from kcr.log.lines import flush_stderr


@click.command("run", epilog="Exit codes: 0 after SIGTERM or SIGINT, 1 on failure, 2 on a wrong option.")
@shared.plugin_options()
@shared.program_options(leader_elect_resource_name="kcr-controller-manager")
def command(*, controllers: tuple[str, ...], **values: Any) -> None:
    """Run controllers against a Kubernetes API server."""
    given = {name: values.pop(name) for name in PluginOptions.__struct_fields__ if name in values}
    made = program_options(values)
    run(made, lambda: _warned(find_plugins(controllers)), given, command="kcr run", controllers=controllers)


def program_options(values: Mapping[str, Any]) -> ProgramOptions:
    """Return the options of the command that runs.

    Args:
        values: By parameter name.

    Raises:
        click.UsageError: Options contradict each other.
    """
    made = ProgramOptions(**values)
    for name, fault in made.contradictions():
        spell = given_as(click.get_current_context(), name)
        spelled = {field: spell(field) for field in ProgramOptions.__struct_fields__}
        raise click.UsageError(f"{spelled[name]}: {fault.format_map(spelled)}")
    return made


def _warned(setups: Mapping[str, Setup]) -> Mapping[str, Setup]:
    """Log variables that no option has, once the logs are set up."""
    warn_of_unknown_variables(setups, get_logger().warning)
    return setups


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
    @click.command(
        help=inspect.getdoc(setup) or "Run controllers against an API server.",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    @shared.program_options(**{name: value for name, value in defaults.items() if value is not None})
    def command(**values: Any) -> None:
        run(program_options(values), lambda: _warned({"the program": setup}), {})

    return command
