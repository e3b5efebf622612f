"""Where log lines are written, and how they look to people."""

import os
import re
import sys
from collections import Counter
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # loaded with the first line, see `kcr.log`
    from structlog.typing import Processor

# How a plain line begins, as kubectl's do.
_MARKS = {"warning": "Warning: ", "error": "Error: ", "critical": "Error: "}

# A terminal obeys control characters, those of C1 and the line separators of Unicode among them; not the tab
# and the line feed.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")

# So many tracebacks are remembered, and so many are printed of errors that come from the same lines.
_MAX_TRACEBACKS, _MAX_PER_PLACE = 1000, 3


class Stderr:
    """Writes to whatever stderr is at the moment: the live display of `kcr dev` stands in for it for a while."""

    def write(self, text: str) -> None:
        """Write to the present stderr; if its reader has closed it, the line is dropped without an error."""
        # A surrogate is escaped, which only the interpreter's own stderr does by itself.
        try:
            sys.stderr.write(text.encode(errors="backslashreplace").decode())
        except OSError:
            discard_stderr()

    def flush(self) -> None:
        """Flush the present stderr."""
        flush_stderr()


def flush_stderr() -> None:
    """Flush stderr; that its reader has closed it is no error."""
    try:
        sys.stderr.flush()
    except OSError:
        discard_stderr()


def discard_stderr() -> None:
    """Redirect stderr, including buffered text, to the null device, because its reader has closed it.

    Otherwise the interpreter would write it once more at its exit, fail, and end with code 120.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)


class TracebackOnce:
    """A structlog processor: renders tracebacks, without the values of variables, and each distinct one once.

    A reconcile that fails is tried again, ten times in its first five seconds. Lines that repeat an error have its
    message, and no traceback. Of errors that differ in their text alone, as when each names an object, the first few
    have one: they come from the same lines of code.
    """

    def __init__(self) -> None:
        # Hashes of printed tracebacks; and counts by the lines of code in them.
        self._printed: set[int] = set()
        self._places: Counter[int] = Counter()

    def __call__(self, logger: Any, method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Replace `exc_info` by `exception`, or remove it."""
        from structlog.processors import format_exc_info  # noqa: PLC0415  # loaded by now

        fields = format_exc_info(logger, method, fields)
        if "exception" in fields and not self._is_new(fields["exception"]):
            del fields["exception"]
        return fields

    def _is_new(self, trace: str) -> bool:
        printed = hash(trace)
        place = hash(tuple(line for line in trace.splitlines() if 'File "' in line))
        if printed in self._printed or self._places[place] >= _MAX_PER_PLACE:
            return False
        if len(self._printed) == _MAX_TRACEBACKS:
            self._printed.clear()
            self._places.clear()
        self._printed.add(printed)
        self._places[place] += 1
        return True


def as_plain_line(_logger: object, _method: str, fields: MutableMapping[str, Any]) -> str:
    """Render a record as a line of talk, `Warning: site default/a: it failed (retries=1)`, its traceback below."""
    mark = _MARKS.get(fields.pop("level", ""), "")
    # Warnings of a server are quoted, as by kubectl.
    event = fields.pop("event", "")
    event = fields.pop("warning", event)
    fields.pop("timestamp", None)
    trace = fields.pop("exception", "")
    line = f"{mark}{who_of(fields)}{event}"
    line = printable(f"{line} ({details})" if (details := details_of(fields)) else line)
    return f"{line}\n{trace}" if trace else line


def who_of(fields: MutableMapping[str, Any]) -> str:
    """Remove the controller and its key from a record, and return them: `website default/shop: `."""
    if "controller" not in fields:
        return ""
    controller, namespace = fields.pop("controller"), fields.pop("namespace", "")
    key = f"{namespace}/{name}" if (name := fields.pop("name", "")) and namespace else name
    return f"{controller} {key}: " if key else f"{controller}: "


def details_of(fields: MutableMapping[str, Any]) -> str:
    """Return the fields of a record in words: `kind=pods, retries=3`."""
    return ", ".join(f"{name}={value}" for name, value in fields.items())


def printable(text: str) -> str:
    r"""Return a text with its control characters as Python writes them, such as `\x1b` for the escape.

    Messages of conditions and events come from other clients and from programs in pods: an escape sequence in one of
    them could hide lines of the output, or forge some.
    """
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def one_line(text: str) -> str:
    r"""Return a text with all that is not printable escaped: line feeds and marks of direction as well.

    So a text from another source cannot replace our own words beside it.
    """
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def plain_lines() -> "list[Processor]":
    """Return the processors of plain lines."""
    return [TracebackOnce(), as_plain_line]
