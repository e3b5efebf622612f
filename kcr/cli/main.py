"""The entry point: commands, error lines and exit codes.

An error is one line on stderr, `kcr: <cause>: <remedy>`, and an exit code: 2 for a wrong usage, 1 for the rest.
"""

import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path

import click

from kcr.app.faults import remedy, unexpected
from kcr.app.fields import given_as
from kcr.app.logs import configure_logs
from kcr.atomicfile import is_full
from kcr.cli.commands import Commands, added_names
from kcr.errors import KcrError
from kcr.log import get_logger
from kcr.log.lines import flush_stderr, printable

# What click's types are called in its messages, and what a value is that is none.
_TYPES: Mapping[str, str] = {
    "integer": "no whole number", "int": "no whole number", "float": "no number", "boolean": "neither true nor false",
}  # fmt: skip

# The variables of all commands and of kcr's own controllers; a test compares them with the options.
VARIABLES = frozenset(
    [
        "KCR_ALL_NAMESPACES",
        "KCR_CONTAINER",
        "KCR_CONTEXT",
        "KCR_CONTROLLERS",
        "KCR_CRONJOB_TIME_ZONE",
        "KCR_DEBUG_ADDRESS",
        "KCR_DEV_AUTHORIZATION",
        "KCR_DEV_DATA_DIR",
        "KCR_DEV_DEBUG_PORT",
        "KCR_DEV_FAULTS",
        "KCR_DEV_FILES",
        "KCR_DEV_KUBECONFIG",
        "KCR_DEV_LEGACY_APIS",
        "KCR_DEV_NODES",
        "KCR_DEV_NO_CONTROLLERS",
        "KCR_DEV_NO_DEBUG_PAGE",
        "KCR_DEV_PORT",
        "KCR_DEV_RUNTIME",
        "KCR_DEV_TERMINATED_POD_GC_THRESHOLD",
        "KCR_DEV_WAIT",
        "KCR_DRY_RUN",
        "KCR_EXEC_PLUGINS",
        "KCR_FEATURE_GATES",
        "KCR_FOLLOW",
        "KCR_HEALTH_PROBE_BIND_ADDRESS",
        "KCR_JOB",
        "KCR_JOBS",
        "KCR_JOB_POD_FAILURE_BACKOFF",
        "KCR_KUBECONFIG",
        "KCR_KUBE_API_BURST",
        "KCR_KUBE_API_QPS",
        "KCR_LEADER_ELECT",
        "KCR_LEADER_ELECT_LEASE_DURATION",
        "KCR_LEADER_ELECT_RENEW_DEADLINE",
        "KCR_LEADER_ELECT_RESOURCE_NAME",
        "KCR_LEADER_ELECT_RESOURCE_NAMESPACE",
        "KCR_LEADER_ELECT_RETRY_PERIOD",
        "KCR_LOG_FORMAT",
        "KCR_LOG_LEVEL",
        "KCR_MAX_JOB_POD_FAILURE_BACKOFF",
        "KCR_MAX_POD_CREATE_DELETE_PER_SYNC",
        "KCR_MAX_UNCOUNTED_PODS",
        "KCR_METRICS_ADDRESS",
        "KCR_METRICS_BIND_ADDRESS",
        "KCR_METRICS_CERT_KEY",
        "KCR_METRICS_CERT_NAME",
        "KCR_METRICS_CERT_PATH",
        "KCR_METRICS_SECURE",
        "KCR_NAME",
        "KCR_NAMESPACE",
        "KCR_OUTPUT",
        "KCR_PREFIX",
        "KCR_READY_FILE",
        "KCR_SECONDS",
        "KCR_SINCE",
        "KCR_SYNC_JOB_BATCH_PERIOD",
        "KCR_TAIL",
        "KCR_TAKE_OVER",
        "KCR_TIMESTAMPS",
        "KCR_WORKERS",
    ]
)


@click.group(cls=Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kcr")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Kubernetes controllers in Python."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main() -> None:
    """Run the command line and exit."""
    open_standard_streams()
    configure_logs(None, "info")
    code = exit_code_of(sys.argv[1:])
    flush_stderr()
    sys.exit(code)


def open_standard_streams() -> None:
    """Make the standard streams usable: closed ones get the null device, or the next file would take their place."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        # As stderr does: where the locale has no UTF-8, a character of a log is no error.
        sys.stdout.reconfigure(errors="backslashreplace")


def exit_code_of(arguments: list[str]) -> int:
    """Run one command, print an error as one line on stderr, and return the exit code."""
    try:
        return cli.main(arguments, prog_name=_program_name(), standalone_mode=False) or 0
    except BaseException as error:
        return explain(single(error), "kcr")


def _program_name() -> str:
    """Return how the command was called: as a plugin of kubectl it is `kubectl kcr`."""
    return "kubectl kcr" if Path(sys.argv[0]).name.startswith("kubectl-kcr") else "kcr"


def explain(error: BaseException, program: str, *, has_help: bool = True) -> int:
    """Print an error as one line on stderr, and return the exit code.

    Args:
        error: What the command raised.
        program: Its name, which begins the line.
        has_help: Whether the line names `--help`: the program has read options.
    """
    match error:
        case click.UsageError():
            path = error.ctx.command_path if error.ctx else program
            see = f": see '{path} --help'" if has_help else ""
            return _say(program, f"{_fault(error).rstrip('.')}{see}", 2)
        case KcrError():
            return _say(program, str(error), 1)
        case click.Abort() | KeyboardInterrupt():
            return 130
        case BrokenPipeError():
            # The reader of stdout has closed it. What is still buffered must not be flushed again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 141
        case OSError() if is_full(error):
            # As when stdout is a file on a full disk.
            return _say(program, f"cannot write: {error.strerror}: free some space", 1)
        case Exception():
            get_logger().debug("unexpected error", exc_info=error)
            return _say(program, f"{unexpected(error)}: {remedy(error)}", 1)
        case _:
            raise error


def warn_of_unknown_variables(setups: Mapping[str, Callable[..., object]], warn: Callable[[str], object]) -> None:
    """Warn of variables that begin with `KCR_` and that no option has; called by the command that reads options.

    Args:
        setups: The plugins of the command, whose options have variables as well.
        warn: Says a warning.
    """
    from kcr.app.plugins import unknown_variables, variables_of  # noqa: PLC0415  # half the commands

    ctx = click.get_current_context()
    known = {*variables_of_options(ctx.command, ctx.auto_envvar_prefix), *variables_of(setups)}
    if not unknown_variables(os.environ, known):
        return
    # They may be for another command, or for a plugin that does not run now: neither is imported to find out.
    known |= VARIABLES
    # The variables of someone else's begin with its name, or are warned of.
    plugins = [point.name for point in entry_points(group="kcr.controllers") if not point.value.startswith("kcr.")]
    others = tuple(f"KCR_{name.upper().replace('-', '_')}_" for name in (*plugins, *added_names()))
    for variable, nearest in unknown_variables(os.environ, known).items():
        if variable.startswith(others):
            continue
        hint = f"is it {nearest}?" if nearest else "see --help for those that are read"
        warn(f"no option has the variable {variable}: {hint}")


def variables_of_options(command: click.Command, prefix: str | None) -> Iterator[str]:
    """Yield the variables of a command's options, and of the commands below it."""
    prefix = command.context_settings.get("auto_envvar_prefix", prefix)
    for option in command.params:
        if isinstance(option.envvar, str):
            yield option.envvar
        elif prefix and option.name:
            yield f"{prefix}_{option.name.upper()}"
    for one in command.commands.values() if isinstance(command, click.Group) else ():
        yield from variables_of_options(one, prefix and f"{prefix}_{(one.name or '').upper()}")


def _fault(error: click.UsageError) -> str:
    """Return click's message, with the option, variable or keyword that a wrong value came from."""
    match error:
        case click.MissingParameter():
            pass
        case click.BadParameter(ctx=click.Context() as ctx, param=click.Option() as option) if option.name:
            return f"Invalid value for {given_as(ctx, option.name)(option.name)}: {_plainer(error.message)}"
    return _plainer(error.format_message())


def _plainer(message: str) -> str:
    """Return click's message about a value, which names its own types, in words for what the value is not."""
    value, said, kind = message.partition(" is not a valid ")
    if not said:
        return message
    words = next((words for name, words in _TYPES.items() if kind.startswith(name)), "")
    return f"{value} is {words}" if words else message


def single(error: BaseException) -> BaseException:
    """Return the error inside exception groups of one, which task groups raise."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _say(program: str, text: str, code: int) -> int:
    click.echo(f"{program}: {printable(' '.join(text.split()))}", err=True)
    return code
