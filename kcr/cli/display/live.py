"""Progress as a live picture on a terminal: a row per CronJob, Job and bare pod, the newest events, logs above."""

import asyncio
import sys
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from types import TracebackType
from typing import Self

from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from kcr.api.durations import human_duration
from kcr.api.meta import Key
from kcr.cli.display.display import WARNING, Display, View
from kcr.cli.display.view import CronJobView, EventView, JobView, PodView, duration, shares, shown_name
from kcr.clock import Clock

_EVENTS = 5
_REASONS = 3
# Blank lines, the line that counts hidden rows, and the cursor's.
_OTHERS = 5
# Which kinds are shown first when room is short, and the order of the tables.
_PRECEDENCE: tuple[type[View], ...] = (JobView, PodView, CronJobView)
_ORDER: tuple[type[View], ...] = (CronJobView, JobView, PodView)
_COLUMNS: Mapping[type[View], tuple[JustifyMethod, ...]] = {
    # Mark, name, schedule; active, last, next; state.
    CronJobView: ("left", "left", "left", "right", "right", "right", "left"),
    # Mark, name, bar; succeeded, active, ready, failed, age; state.
    JobView: ("left", "left", "left", "right", "right", "right", "right", "right", "left"),
    # Mark, name; ready, restarts, age; state.
    PodView: ("left", "left", "right", "right", "right", "left"),
}
# From this width on, names and bars have their full width.
_WIDE = 110
_NAME_CELLS = 36
_BAR_CELLS = 30
_FRAMES_PER_SECOND = 10
_STYLES = {
    "Complete": ("✓", "green"), "SuccessCriteriaMet": ("✓", "green"), "Failed": ("✗", "bold red"),
    "FailureTarget": ("✗", "red"), "Suspended": ("‖", "yellow"),
    "Succeeded": ("✓", "green"), "Scheduled": ("↻", "cyan"),
}  # fmt: skip


class LiveDisplay(Display):
    """Draws on the terminal of stderr while its context lives; `run` redraws it."""

    def __init__(self, clock: Clock, hint: str, console: Console | None = None) -> None:
        """Draw nothing yet.

        Args:
            clock: What time it is, for durations.
            hint: A line that is shown below the picture once logs have scrolled the first lines away.
            console: Where to draw; None for stderr.
        """
        super().__init__(clock)
        self._hints = [hint]
        self._has_scrolled = False
        self._console = console or Console(stderr=True)
        # On one terminal logs must go through the console, or they would be drawn over.
        self._logs_on_screen = sys.stdout.isatty()
        self._views: dict[tuple[str, Key], View] = {}
        self._events: deque[EventView] = deque(maxlen=_EVENTS)
        self._stale = True
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
        """Leave the last picture on the terminal, without the hints: what they name ends, too."""
        self._has_scrolled = False
        self._live.stop()

    async def run(self) -> None:
        """Redraw until cancelled; a picture without changes is not redrawn."""
        while True:
            self.refresh()
            await asyncio.sleep(1 / _FRAMES_PER_SECOND)

    def refresh(self) -> None:
        """Draw the next frame, unless nothing has changed."""
        if self._stale or any(not view.has_ended for view in self._views.values()):
            self._stale = False
            self._live.refresh()

    def show(self, view: View) -> None:
        """Show the row of a Job, CronJob or pod."""
        self._views[view.kind, view.key] = view
        self._stale = True

    def gone(self, kind: str, key: Key) -> None:
        """Remove the row of a deleted object."""
        self._views.pop((kind, key), None)
        self._stale = True

    def event(self, event: EventView) -> None:
        """Show an event under the bars, in place of the oldest."""
        self._stale = True
        self._events.append(event)

    def log(self, line: str) -> None:
        """Print a line of a pod above the picture, or to stdout when that is no terminal."""
        if self._logs_on_screen:
            self._has_scrolled = True
            self.say(line)
        else:
            super().log(line)

    def say(self, line: str) -> None:
        """Print a line above the picture."""
        self._console.print(Text(line), soft_wrap=True, highlight=False)

    def announce(self, line: str) -> None:
        """Print where else to look, and show it below the picture once logs have scrolled it away."""
        super().announce(line)
        self._hints.append(line)

    def _picture(self) -> RenderableType:
        told = min(sum(bool(view.why) for view in self._views.values()), _REASONS) + len(self._events)
        room = max(1, self._console.height - told - len(self._hints) - _OTHERS)
        shown, hidden = _most_telling(self._views.values(), room)
        names = max((self._name(view).cell_len for view in shown), default=0)
        tables = [self._table(kind, [view for view in shown if isinstance(view, kind)], names) for kind in _ORDER]
        # Below the table: in it, a long reason would widen its column.
        reasons = [_one_line(f"✗ {shown_name(view.key)}: {view.why}", "red") for view in shown if view.why]
        more = [_one_line(f"… and {hidden} more", "dim")] if hidden else []
        nothing = [] if shown else [_one_line("no Jobs yet", "dim")]
        hints = [Text(), *(_one_line(hint, "dim") for hint in self._hints)] if self._has_scrolled else []
        return Group("", *tables, *nothing, *more, *reasons[:_REASONS], "", *_aligned(self._events), *hints)

    @property
    def _is_wide(self) -> bool:
        return self._console.width >= _WIDE

    def _table(self, kind: type[View], views: Iterable[View], names: int) -> Table:
        table = Table.grid(padding=(0, 2 if self._is_wide else 1))
        for place, align in enumerate(_COLUMNS[kind]):
            # Names have the same width in all tables.
            table.add_column(no_wrap=True, justify=align, min_width=names if place == 1 else None)
        for view in views:
            table.add_row(*self._row(view))
        return table

    def _name(self, view: View) -> Text:
        name = Text(shown_name(view.key), style="bold")
        name.truncate(_NAME_CELLS if self._is_wide else _NAME_CELLS // 2, overflow="ellipsis")
        return name

    def _row(self, view: View) -> Iterable[RenderableType]:
        mark, style = _STYLES.get(view.state, ("", "cyan"))
        yield Text(mark, style=style) if mark else Text("·", "yellow") if view.has_ended else self._spinner
        yield self._name(view)
        match view:
            case JobView():
                yield from self._of_job(view)
            case CronJobView():
                yield from self._of_cronjob(view)
            case PodView():
                yield Text(f"{view.ready}/{view.containers} ready", style="" if view.ready else "dim")
                yield Text(f"{view.restarts} restarts", style="yellow" if view.restarts else "dim")
                yield Text(duration(view, self._clock.now()))
        yield Text(view.state, style=style)

    def _of_job(self, view: JobView) -> Iterable[Text]:
        goal = "" if view.wanted is None else f"/{view.wanted}"
        yield _bar(view, _BAR_CELLS if self._is_wide else _BAR_CELLS // 3)
        yield Text(f"{view.succeeded}{goal}", style="green" if view.succeeded else "")
        yield Text(f"{view.active} active", style="cyan" if view.active else "dim")
        yield Text(f"{view.ready} ready", style="" if view.ready else "dim")
        yield Text(f"{view.failed} failed", style="red" if view.failed else "dim")
        yield Text(duration(view, self._clock.now()))

    def _of_cronjob(self, view: CronJobView) -> Iterable[Text]:
        now = self._clock.now()
        coming = view.next_run(now)
        yield Text(view.schedule)
        yield Text(f"{view.active} active", style="cyan" if view.active else "dim")
        last = f"last {human_duration(now - view.last)} ago" if view.last else "last none"
        yield Text(last, style="" if view.last else "dim")
        following = f"next in {human_duration(coming - now)}" if coming else "next none"
        yield Text(following, style="" if coming else "dim")


def _aligned(events: Collection[EventView]) -> Iterable[Text]:
    """Yield the events as lines with aligned columns; long ones are not aligned."""
    warned = len(WARNING) if any(event.warning for event in events) else 0
    about = min(max((len(event.about) for event in events), default=0), _NAME_CELLS)
    reason = max((len(event.reason) for event in events), default=0)
    for event in events:
        mark = f"{WARNING if event.warning else '':<{warned}}"
        line = f"{mark}{event.about:<{about}}  {event.reason:<{reason}}  {event.message}"
        yield _one_line(line, "yellow" if event.warning else "dim")


def _one_line(text: str, style: str) -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _bar(view: JobView, width: int) -> Text:
    done, active, rest = shares(view, width)
    failed = view.state in ("Failed", "FailureTarget")
    return Text.assemble(
        ("━" * done, "green"), ("━" * active, "cyan"), ("━" * rest, "red" if failed else "bright_black")
    )


def _most_telling(views: Iterable[View], room: int) -> tuple[list[View], int]:
    """Return what to show, and how many are left out: those still running come first, and of these Jobs."""
    ordered = sorted(views, key=lambda view: (view.has_ended, _PRECEDENCE.index(type(view))))
    return ordered[:room], max(0, len(ordered) - room)
