"""Unexpected errors as one line: the error, its place, and whether user code or kcr raised it.

A `kcr.KcrError` says cause and remedy itself. Any other error comes from a bug, and most bugs are in the program that
kcr runs: a name that is not imported, an attribute that is misspelled. So the line names the innermost place in that
program, and calls only an error that has none a bug of kcr. Tracebacks begin where kcr catches, so the call of
`kcr.run` is not in them.
"""

import sys
import traceback
from pathlib import Path
from types import TracebackType

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
    """Return the innermost place that belongs to none of kcr, Python and installed packages, or `""`.

    Args:
        trace: The traceback of an error.
    """
    place = ""
    for frame, line in traceback.walk_tb(trace):
        code, top = frame.f_code, str(frame.f_globals.get("__name__", "")).partition(".")[0]
        is_library = top == "kcr" or top in sys.stdlib_module_names or "site-packages" in code.co_filename
        if not is_library and not code.co_filename.startswith("<"):
            inside = "" if code.co_name == "<module>" else f" in {code.co_name}"
            place = f"{Path(code.co_filename).name}:{line}{inside}"
    return place
