"""Errors as one line on stderr, `kcr: <cause>: <remedy>`, and an exit code: 2 for a wrong usage, 1 for the rest.

A `kcr.KcrError` says cause and remedy itself. Any other error comes from a bug, and most bugs are in the program that
kcr runs: a name that is not imported, an attribute that is misspelled. So the line names the innermost place in that
program, and calls only an error that has none a bug of kcr. Tracebacks begin where kcr catches, so the call of
`kcr.run` is not in them.
"""

import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, cast

import click

from kcr.app.fields import given_as
from kcr.arguments import is_mistake
from kcr.atomicfile import is_full
from kcr.errors import KcrError, described
from kcr.log import get_logger
from kcr.log.lines import printable

T = TypeVar("T")

# The names of click's types in its messages, and words for a value of another type.
_TYPES: Mapping[str, str] = {
    "integer": "not a whole number", "int": "not a whole number", "float": "not a number",
    "boolean": "neither true nor false",
}  # fmt: skip
# How an error line ends when no user's code is on the stack.
_OUR_BUG = "this is a bug; KCR_LOG_LEVEL=debug shows the traceback"
YOUR_BUG = "correct it there; KCR_LOG_LEVEL=debug shows the traceback"


def unexpected(error: Exception) -> str:
    """Return an unexpected error as one line: component and key, error, place in the code."""
    # The innermost component comes first.
    who = ", ".join(getattr(error, "__notes__", ()))
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno} in {frames[-1].name}" if frames else ""
    place = place_of_user(error.__traceback__)
    if place:
        where = f" at {place}"
    return f"{who + ': ' if who else ''}{described(error)}{where}"


def mistake(error: BaseException) -> str:
    """Return the mistake of an author as one line, with its place in his code; empty for another error."""
    if not is_mistake(error):
        return ""
    place = place_of_user(error.__traceback__)
    return f"{error}, at {place}" if place else str(error)


def one_line(function: T) -> T:
    """End the program with one line when the call of a function is a mistake."""

    def call(*arguments: Any, **given: Any) -> Any:
        try:
            return cast("Any", function)(*arguments, **given)
        except (TypeError, ValueError) as error:
            if not (text := mistake(error)):
                raise
            sys.exit(_say(Path(sys.argv[0]).name, text, 2))

    return cast("T", wraps(cast("Any", function))(call))


def remedy(error: Exception) -> str:
    """Return the remedy for an unexpected error: the project to report it to."""
    return YOUR_BUG if place_of_user(error.__traceback__) else _OUR_BUG


def import_fault(error: Exception, module: str, hint: str) -> str:
    """Return why a module cannot be imported, and the remedy.

    Args:
        error: The exception of its import.
        module: The module as the user named it, with dots.
        hint: The remedy where there is no such module.
    """
    text = described(error)
    if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
        return f"{text}: {hint}"
    if isinstance(error, SyntaxError):
        # Its text names file and line.
        return f"{text}: correct it there"
    place = place_of_user(error.__traceback__)
    if place:
        return f"{text} at {place}: correct it there"
    return f"{text}: {hint}"


def place_of_user(trace: TracebackType | None) -> str:
    """Return the innermost place in the user's own code, see `own_place`; empty when the error has none."""
    from kcr.stacks import own_place  # noqa: PLC0415  # imports asyncio, and a shell that completes waits

    return own_place(trace)


def run_command(
    command: click.Command, arguments: Sequence[str], called: str, program: str, *, has_help: bool = True
) -> int | None:
    """Run a command, print an error as one line on stderr, and return the exit code; None for a success.

    Args:
        command: The command.
        arguments: Its arguments.
        called: How it was called, for the help.
        program: Its name, which begins the line of an error.
        has_help: Whether the line names `--help`: the program has read options.
    """
    try:
        code: int | None = command.main(list(arguments), prog_name=called, standalone_mode=False)
    except BaseException as error:
        return _explain(_single(error), program, has_help)
    return code


def _explain(error: BaseException, program: str, has_help: bool) -> int:
    """Print an error as one line on stderr, and return the exit code."""
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
            # The reader of stdout has closed it. Buffered output must not be flushed again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 141
        case OSError() if is_full(error):
            # As when stdout is a file on a full disk.
            return _say(program, f"cannot write: {error.strerror}: free some space", 1)
        case Exception() if text := mistake(error):
            return _say(program, text, 1)
        case Exception():
            get_logger().debug("unexpected error", exc_info=error)
            return _say(program, f"{unexpected(error)}: {remedy(error)}", 1)
        case _:
            raise error


def _fault(error: click.UsageError) -> str:
    """Return click's message, with the option, variable or keyword that a wrong value came from."""
    match error:
        case click.MissingParameter():
            pass
        case click.BadParameter(ctx=click.Context() as ctx, param=click.Option() as option) if option.name:
            return f"Invalid value for {given_as(ctx, option.name)(option.name)}: {_plainer(error.message)}"
    return _plainer(error.format_message())


def _plainer(message: str) -> str:
    value, said, kind = message.partition(" is not a valid ")
    if not said:
        return message
    words = next((words for name, words in _TYPES.items() if kind.startswith(name)), "")
    return f"{value} is {words}" if words else message


def _single(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _say(program: str, text: str, code: int) -> int:
    click.echo(f"{program}: {printable(' '.join(text.split()))}", err=True)
    return code
