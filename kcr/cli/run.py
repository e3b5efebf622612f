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

from kcr.app.logs import configure_logs
from kcr.app.plugins import Setup, find_plugins
from kcr.app.run import Settings, run
from kcr.cli import options as shared
from kcr.cli.main import explain, open_standard_streams, single, warn_of_unknown_variables
from kcr.log import get_logger
from kcr.log.lines import flush_stderr


@click.command(
    "run",
    context_settings={"auto_envvar_prefix": "KCR", "show_default": True},
    epilog="Exit codes: 0 after SIGTERM or SIGINT, 1 on failure, 2 on a wrong option.",
)
@shared.controllers_option("job")
@shared.connection_options
@click.option(
    "--take-over",
    is_flag=True,
    show_envvar=True,
    help="Take the place of the cluster's own controllers: reconcile Jobs without spec.managedBy too.",
)
@shared.workers_option
@shared.feature_gates_option
@shared.dry_run_option
@shared.election_options("kcr-controller-manager")
@shared.operation_options("info")
def command(**values: Any) -> None:
    """Run controllers against a Kubernetes API server."""
    names = shared.names(values.pop("controllers"))
    if not names:
        raise click.UsageError("--controllers names none")
    given = {name: values.pop(name) for name in ("workers", "take_over", "feature_gates")}
    run(Settings.of(values), lambda: _warned(find_plugins(names)), given, command="kcr run", controllers=names)


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
    settings = {
        "auto_envvar_prefix": "KCR",
        "show_default": True,
        "help_option_names": ["-h", "--help"],
        "default_map": {name: value for name, value in defaults.items() if value is not None},
    }

    @click.command(context_settings=settings, help=inspect.getdoc(setup) or "Run controllers against an API server.")
    @shared.connection_options
    @shared.dry_run_option
    @shared.election_options("")
    @shared.operation_options("info")
    def command(**values: Any) -> None:
        run(Settings.of(values), lambda: _warned({"the program": setup}), {})

    return command
