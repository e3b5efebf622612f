"""Where progress goes: plain lines here, a live picture in `live`."""

import sys
from typing import Protocol

from kcr.api.meta import Key
from kcr.cli.view import JobView, line_of


class Display(Protocol):
    """Shows what happens. Talk goes to stderr, what the pods print to stdout."""

    def job(self, view: JobView) -> None:
        """Show a Job as it is now."""
        ...

    def gone(self, key: Key) -> None:
        """Forget a Job that was deleted."""
        ...

    def event(self, line: str, *, warning: bool) -> None:
        """Show an event."""
        ...

    def log(self, line: str) -> None:
        """Show a line that a pod printed."""
        ...

    def say(self, line: str) -> None:
        """Show a line of talk."""
        ...


class PlainDisplay:
    """A line for each change: for files, pipes and continuous integration."""

    def __init__(self) -> None:
        self._last: dict[Key, str] = {}

    def job(self, view: JobView) -> None:
        """Print the Job when its line is a new one."""
        line = line_of(view)
        if self._last.get(view.key) != line:
            self._last[view.key] = line
            self.say(line)

    def gone(self, key: Key) -> None:
        """Say that a Job was deleted."""
        if self._last.pop(key, None) is not None:
            self.say(f"job {key}: deleted")

    def event(self, line: str, *, warning: bool) -> None:
        """Print an event."""
        self.say(f"{'warning' if warning else 'event'}: {line}")

    def log(self, line: str) -> None:
        """Print a line of a pod to stdout, at once."""
        print(line, flush=True)

    def say(self, line: str) -> None:
        """Print a line to stderr."""
        print(line, file=sys.stderr, flush=True)
