"""Where progress goes: plain lines here, a live picture in `live`."""

import sys
from typing import Protocol

from kcr.api.meta import Key
from kcr.cli.view import EventView, JobView, line_of, shown_name


class Display(Protocol):
    """Shows what happens. Talk goes to stderr, what the pods print to stdout."""

    def job(self, view: JobView) -> None:
        """Show a Job as it is now."""
        ...

    def gone(self, key: Key) -> None:
        """Forget a Job that was deleted."""
        ...

    def event(self, event: EventView) -> None:
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
        self._told: dict[Key, tuple[object, ...]] = {}

    def job(self, view: JobView) -> None:
        """Print the Job when there is news of it."""
        if view.news and view.news != self._told.get(view.key):
            self._told[view.key] = view.news
            self.say(line_of(view))

    def gone(self, key: Key) -> None:
        """Say that a Job was deleted."""
        self._told.pop(key, None)
        self.say(f"job {shown_name(key)}: deleted")

    def event(self, event: EventView) -> None:
        """Print an event, indented: what happened on the way from one state of a Job to the next."""
        mark = "!" if event.warning else "-"
        self.say(f"  {mark} {event.about}: {event.reason}: {event.message}")

    def log(self, line: str) -> None:
        """Print a line of a pod to stdout, at once."""
        print(line, flush=True)

    def say(self, line: str) -> None:
        """Print a line to stderr."""
        print(line, file=sys.stderr, flush=True)
