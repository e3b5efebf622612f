"""The entry point: commands, and what becomes of errors.

An error is one line on stderr, `kcr: <cause>: <remedy>`, and an exit code: 2 for a wrong usage, 1 for the rest.
"""

import importlib
import os
import sys

import click
import structlog
from click.core import ParameterSource

from kcr.cli.logs import configure_logs
from kcr.errors import KcrError

# Each command lives in a module of its name, imported when it is called: `kcr run` never sees `kcr dev`.
COMMANDS = {
    "dev": "Try it: a cluster in this process, its controllers, and your manifests.",
    "run": "Run controllers against a Kubernetes API server.",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"kcr.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.group(cls=_Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kcr")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Kubernetes controllers in Python."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main() -> None:
    """Run the command line and exit."""
    configure_logs(None, "info")
    sys.exit(exit_code_of(sys.argv[1:]))


def exit_code_of(arguments: list[str]) -> int:
    """Run one command, say on stderr what went wrong, and return the exit code."""
    try:
        return cli.main(arguments, prog_name="kcr", standalone_mode=False) or 0
    except BaseException as error:
        return _explain(_single(error))


def _explain(error: BaseException) -> int:
    match error:
        case click.UsageError():
            path = error.ctx.command_path if error.ctx else "kcr"
            return _say(f"{_fault(error).rstrip('.')}: see '{path} --help'", 2)
        case click.ClickException():
            return _say(error.format_message(), error.exit_code)
        case KcrError():
            return _say(str(error), 1)
        case click.Abort() | KeyboardInterrupt():
            return 130
        case BrokenPipeError():
            # Whoever read our output has enough. What is still buffered must not be tried again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 141
        case Exception():
            structlog.get_logger().debug("unexpected error", exc_info=error)
            return _say(f"{type(error).__name__}: {error}: this is a bug; --log-level debug shows where", 1)
        case _:
            raise error


def _fault(error: click.UsageError) -> str:
    """Return what is wrong; of a value from the environment with its variable, which click often leaves out."""
    match error:
        case click.BadParameter(ctx=click.Context() as ctx, param=click.Option() as option) if option.name:
            if ctx.get_parameter_source(option.name) is ParameterSource.ENVIRONMENT:
                variable = option.envvar or f"{ctx.auto_envvar_prefix}_{option.name.upper()}"
                return f"Invalid value for {variable}: {error.message}"
    return error.format_message()


def _single(error: BaseException) -> BaseException:
    """Return the one error inside groups of one: what task groups wrap."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _say(text: str, code: int) -> int:
    click.echo(f"kcr: {' '.join(text.split())}", err=True)
    return code
