"""Displays of progress: plain lines here; an entry point of the group `kcr.displays` draws on a terminal."""

import os
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from importlib.metadata import entry_points
from typing import Any, ClassVar, Protocol, TextIO

import msgspec

from kcr.api.durations import human_duration
from kcr.api.meta import Key
from kcr.clock import Clock
from kcr.log.lines import discard_stderr, printable
from kcr.manager import Manager

# As kubectl begins the line of a warning.
WARNING = "Warning: "
# Terminals on which nothing can be drawn.
_DUMB = ("", "dumb", "unknown")
# Locales of terminals that need not know UTF-8. Python takes UTF-8 for them all the same.
_PLAIN_LOCALES = ("C", "POSIX")


class View(Protocol):
    """An object as shown."""

    kind: ClassVar[str]

    @property
    def key(self) -> Key:
        """Its namespace and name."""

    @property
    def state(self) -> str:
        """Its state, one word or two."""

    @property
    def why(self) -> str:
        """The reason of its state; empty when there is nothing to explain."""

    @property
    def news(self) -> tuple[object, ...]:
        """The fields whose change prints it again; empty while there is nothing to print."""

    @property
    def has_ended(self) -> bool:
        """Whether it never changes again."""

    @property
    def started(self) -> datetime | None:
        """When it started; None before."""

    @property
    def ended(self) -> datetime | None:
        """When it ended; None before."""

    def facts(self, now: datetime) -> str:
        """Return its counters or times on one line, without its state; empty when there are none."""


class EventView(msgspec.Struct, frozen=True):
    """An event as shown.

    Attributes:
        about: Kind and name of the involved object: `pod/pi-x`.
        reason: The reason, one word.
        message: The message, on one line.
        warning: Whether its type is `Warning`.
    """

    about: str
    reason: str
    message: str
    warning: bool


class Display:
    """Shows progress, a line for each change: logs of pods on stdout, everything else on stderr.

    For files, pipes and continuous integration; displays that draw on a terminal override the drawn parts.
    """

    def __init__(self, clock: Clock) -> None:
        """Show nothing yet; the clock is for the next runs of CronJobs."""
        self._clock = clock
        self._told: dict[tuple[str, Key], tuple[object, ...]] = {}

    def show(self, view: View) -> None:
        """Show a Job, CronJob or pod as it is now, if its state has changed."""
        identity = view.kind, view.key
        if view.news and view.news != self._told.get(identity):
            self._told[identity] = view.news
            self.say(line_of(view, self._clock.now()))

    def gone(self, kind: str, key: Key) -> None:
        """Print that an object was deleted."""
        self._told.pop((kind, key), None)
        self.say(f"{kind} {shown_name(key)}: deleted")

    def event(self, event: EventView) -> None:
        """Print an event."""
        line = f"{event.about}: {event.reason}: {event.message}"
        if event.warning:
            self.warn(line)
        else:
            self.say(f"  - {line}")

    def log(self, line: str) -> None:
        """Print a line of a pod to stdout, at once."""
        print(line, flush=True)

    def say(self, line: str) -> None:
        """Print a line to stderr, its control characters escaped; a reader that has closed it is no error."""
        try:
            print(printable(line), file=sys.stderr, flush=True)
        except OSError:
            discard_stderr()

    def announce(self, line: str) -> None:
        """Print a line that says where else to look, indented as a part of the greeting."""
        self.say(f"  {line}")

    def warn(self, line: str) -> None:
        """Print a warning to stderr."""
        self.say(f"{WARNING}{line}")


def open_display(stack: AsyncExitStack, manager: Manager) -> Display:
    """Return a live display when stderr is a terminal with UTF-8 that can be drawn on, else plain lines.

    Args:
        stack: Ends the drawing.
        manager: Redraws the picture while it runs.
    """
    # With the extra `embedded`; loaded here, because rich costs 0.1 s, and plain lines need none.
    found = entry_points(group="kcr.displays") if _can_be_drawn_on(sys.stderr, os.environ) else ()
    point = next(iter(found), None)
    if point is None:
        return Display(manager.clock)
    live: Any = stack.enter_context(point.load()(manager.clock))
    manager.add(live)
    return live  # type: ignore[no-any-return]  # a Display that runs


def _can_be_drawn_on(stream: TextIO, environ: Mapping[str, str]) -> bool:
    if not stream.isatty() or environ.get("TERM", "").lower() in _DUMB:
        return False
    # The first that is set says how the terminal writes letters.
    locale = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environ.get(name))), "")
    return stream.encoding.lower().startswith("utf") and locale not in _PLAIN_LOCALES


def line_of(view: View, now: datetime) -> str:
    """Return a view as one plain line: `job pi: Running: 1/4 succeeded, 2 active`; a count of zero is left out."""
    return f"{view.kind} {shown_name(view.key)}: {state_of(view, now)}"


def state_of(view: View, now: datetime) -> str:
    """Return a view as one plain line without its name: `Running: 1/4 succeeded, 2 active`."""
    took = f" in {duration(view, view.ended)}" if view.ended is not None and view.started is not None else ""
    return ": ".join(filter(None, (f"{view.state}{took}", view.facts(now), view.why)))


def shown_name(key: Key) -> str:
    """Return the name, with its namespace unless that is `default`."""
    return key.name if key.namespace == "default" else str(key)


def duration(view: View, now: datetime) -> str:
    """Return how long it runs or ran, as kubectl writes it: `7s`, `2m5s`, `3h20m`; empty before it started."""
    return "" if view.started is None else human_duration(max((view.ended or now) - view.started, timedelta()))
