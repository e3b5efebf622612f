"""Unexpected errors as one line: the error, its place, and whether user code or kcr raised it.

A `kcr.KcrError` says cause and remedy itself. Any other error comes from a bug, and most bugs are in the program that
kcr runs: a name that is not imported, an attribute that is misspelled. So the line names the innermost place in that
program, and calls only an error that has none a bug of kcr. Tracebacks begin where kcr catches, so the call of
`kcr.run` is not in them.
"""

import traceback
from pathlib import Path
from types import TracebackType

from kcr.runnables import Line, own_lines

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
    return f"{who + ': ' if who else ''}{type(error).__name__}: {error}{where}"


def remedy(error: Exception) -> str:
    """Return what to do about an unexpected error: whose bug it is."""
    return YOUR_BUG if place_of_user(error.__traceback__) else _OUR_BUG


def import_fault(error: Exception, module: str, hint: str) -> str:
    """Return why a module cannot be imported, and the remedy.

    Args:
        error: What its import raised.
        module: The module as the user named it, with dots.
        hint: What to do where there is no such module.
    """
    text = f"{type(error).__name__}: {error}"
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
    """Return the innermost place in the user's own code, see `own_lines`; empty when the error has none.

    Args:
        trace: The traceback of an error.
    """
    codes = ((frame.f_code, number) for frame, number in traceback.walk_tb(trace))
    lines = [Line(code.co_filename, number, code.co_name) for code, number in codes]
    own = [line for line, is_own in zip(lines, own_lines(lines), strict=True) if is_own]
    if not own:
        return ""
    inside = "" if own[-1].function == "<module>" else f" in {own[-1].function}"
    return f"{Path(own[-1].file).name}:{own[-1].number}{inside}"
