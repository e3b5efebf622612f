"""Progress as a live picture on a terminal: a bar per Job, the newest events, logs scrolling by above."""

import asyncio
import sys
from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from kcr.api.meta import Key
from kcr.cli.view import JobView, duration, shares, shown_name
from kcr.clock import Clock

_EVENTS = 5
_BAR_CELLS = 30
_FRAMES_PER_SECOND = 10
_STYLES = {
    "Complete": ("✓", "green"), "SuccessCriteriaMet": ("✓", "green"), "Failed": ("✗", "bold red"),
    "FailureTarget": ("✗", "red"), "Suspended": ("‖", "yellow"),
}  # fmt: skip


class LiveDisplay:
    """Draws on stderr's terminal while its context lives; `run` keeps the picture moving."""

    def __init__(self, clock: Clock, console: Console | None = None) -> None:
        """Draw nothing yet.

        Args:
            clock: Tells how long Jobs have been running.
            console: Where to draw; None for stderr.
        """
        self._clock = clock
        self._console = console or Console(stderr=True)
        # On one terminal logs must go through the console, or they would be drawn over.
        self._logs_on_screen = sys.stdout.isatty()
        self._views: dict[Key, JobView] = {}
        self._events: deque[Text] = deque(maxlen=_EVENTS)
        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(
            get_renderable=self._picture, console=self._console, auto_refresh=False,
            redirect_stdout=False, vertical_overflow="crop",
        )  # fmt: skip

    def __enter__(self) -> Self:
        """Begin to draw."""
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the last picture on the terminal."""
        self._live.stop()

    async def run(self) -> None:
        """Redraw until cancelled."""
        while True:
            self._live.refresh()
            await asyncio.sleep(1 / _FRAMES_PER_SECOND)

    def job(self, view: JobView) -> None:
        """Show a Job's bar."""
        self._views[view.key] = view

    def gone(self, key: Key) -> None:
        """Remove a Job's bar."""
        self._views.pop(key, None)

    def event(self, line: str, *, warning: bool) -> None:
        """Show an event under the bars, in place of the oldest."""
        self._events.append(Text(line, style="yellow" if warning else "dim", no_wrap=True, overflow="ellipsis"))

    def log(self, line: str) -> None:
        """Print a line of a pod above the picture, or to stdout when that is no terminal."""
        if self._logs_on_screen:
            self.say(line)
        else:
            print(line, flush=True)

    def say(self, line: str) -> None:
        """Print a line above the picture."""
        self._console.print(Text(line), soft_wrap=True, highlight=False)

    def _picture(self) -> RenderableType:
        room = max(1, self._console.height - _EVENTS - 3)
        shown, hidden = _most_telling(self._views.values(), room)
        table = Table.grid(padding=(0, 1))
        table.add_column(width=1)
        table.add_column(overflow="ellipsis", no_wrap=True, max_width=40)
        for _ in range(5):
            table.add_column(no_wrap=True)
        for view in shown:
            table.add_row(*self._row(view))
        more = [Text(f"… and {hidden} more", style="dim")] if hidden else []
        return Group(table, *more, *self._events)

    def _row(self, view: JobView) -> Iterable[RenderableType]:
        mark, style = _STYLES.get(view.state, ("", "cyan"))
        goal = "" if view.wanted is None else f"/{view.wanted}"
        yield Text(mark, style=style) if mark else self._spinner
        yield Text(shown_name(view.key), style="bold")
        yield _bar(view)
        yield Text(f"{view.succeeded}{goal}")
        yield Text(f"{view.active} active  {view.ready} ready") + Text(
            f"  {view.failed} failed", style="red" if view.failed else ""
        )
        yield Text(duration(view, self._clock.now()), style="dim")
        yield Text(view.state, style=style) + Text(f"  {view.why}" if view.why else "", style="dim")


def _bar(view: JobView) -> Text:
    done, active, rest = shares(view, _BAR_CELLS)
    failed = view.state in ("Failed", "FailureTarget")
    return Text.assemble(
        ("━" * done, "green"), ("━" * active, "cyan"), ("━" * rest, "red" if failed else "bright_black")
    )


def _most_telling(views: Iterable[JobView], room: int) -> tuple[list[JobView], int]:
    """Return the Jobs to show, and how many are left out: those still running come first."""
    ordered = sorted(views, key=lambda view: view.has_ended)
    return ordered[:room], max(0, len(ordered) - room)
