"""Progress as a live picture on a terminal: a row per CronJob, Job and bare pod, the newest events, logs above."""

import asyncio
import sys
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from rich.cells import cell_len
from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from kcr.api.durations import human_duration
from kcr.api.meta import Key
from kcr.cli.display import WARNING, Display, EventView, View, duration, shown_name
from kcr.clock import Clock
from kcr.controllers.job.commands.job_progress import JobView
from kcr.log.lines import printable
from kcr_devcluster.dev.display.views import CronJobView, PodView, shares

_EVENTS = 5
_REASONS = 3
# Blank lines, the line that counts hidden rows, and the cursor's.
_OTHERS = 5
# Which kinds are shown first when room is short, and the order of the tables.
_PRECEDENCE: tuple[type[View], ...] = (JobView, PodView, CronJobView)
_ORDER: tuple[type[View], ...] = (CronJobView, JobView, PodView)
# Of the columns after mark, name and bar.
_ALIGNED: Mapping[type[View], tuple[JustifyMethod, ...]] = {
    # Schedule; active, last, next; state.
    CronJobView: ("left", "right", "right", "right", "left"),
    # Succeeded, active, ready, failed, age; state.
    JobView: ("right", "right", "right", "right", "right", "left"),
    # Ready, restarts, age; state.
    PodView: ("right", "right", "right", "left"),
}
# From this width on, columns are two cells apart.
_WIDE = 110
_BAR_CELLS = 30
# A shorter bar says nothing, and a shorter name is none.
_LEAST_BAR, _LEAST_NAME = 4, 8
# The names of events' objects stand in a column of at most so many cells.
_ABOUT_CELLS = 36
_FRAMES_PER_SECOND = 10
_STYLES = {
    "Complete": ("✓", "green"), "SuccessCriteriaMet": ("✓", "green"), "Failed": ("✗", "bold red"),
    "FailureTarget": ("✗", "red"), "Suspended": ("‖", "yellow"),
    "Waiting": ("!", "yellow"), "Paused": ("‖", "yellow"), "Left alone": ("‖", "yellow"),
    "Succeeded": ("✓", "green"), "Scheduled": ("↻", "cyan"),
}  # fmt: skip


class LiveDisplay(Display):
    """Draws on the terminal of stderr while its context lives; `run` redraws it."""

    def __init__(self, clock: Clock, console: Console | None = None) -> None:
        """Draw nothing yet.

        Args:
            clock: The time, for durations.
            console: Where to draw; None for stderr.
        """
        super().__init__(clock)
        # Where else to look: shown below the picture once logs have scrolled the first lines away.
        self._hints: list[str] = []
        self._has_scrolled = False
        self._console = console or Console(stderr=True)
        # On one terminal logs must go through the console, or they would be drawn over.
        self._logs_on_screen = sys.stdout.isatty()
        self._views: dict[tuple[str, Key], View] = {}
        self._events: deque[EventView] = deque(maxlen=_EVENTS)
        self._had_jobs = False
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
        """Leave the last frame on the terminal, without the hints, which are no longer valid."""
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
        self._had_jobs = self._had_jobs or isinstance(view, JobView)
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
            self._print(line)
        else:
            super().log(line)

    def say(self, line: str) -> None:
        """Print a line above the picture."""
        self._print(printable(line))

    def _print(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True, highlight=False)

    def announce(self, line: str) -> None:
        """Print where else to look, and show it below the picture once logs have scrolled it away."""
        super().announce(line)
        self._hints.append(line)

    def _picture(self) -> RenderableType:
        told = min(sum(bool(view.why) for view in self._views.values()), _REASONS) + len(self._events)
        room = max(1, self._console.height - told - len(self._hints) - _OTHERS)
        shown, hidden = _most_telling(self._views.values(), room)
        # Below the table: in it, a long reason would widen its column.
        reasons = [_reason(view) for view in shown if view.why]
        more = [_one_line(f"… and {hidden} more", "dim")] if hidden else []
        hints = [Text(), *(_one_line(hint, "dim") for hint in self._hints)] if self._has_scrolled else []
        tables = self._tables(shown)
        return Group("", *tables, *self._no_jobs(), *more, *reasons[:_REASONS], "", *_aligned(self._events), *hints)

    def _no_jobs(self) -> Iterable[Text]:
        if any(isinstance(view, JobView) for view in self._views.values()):
            return
        if self._had_jobs:
            yield _one_line("no Jobs", "dim")
        elif not self._views:
            yield _one_line("no Jobs yet", "dim")

    def _tables(self, shown: Iterable[View]) -> Iterable[Table]:
        """Yield a table for each kind. Where room is short the bar is the first to give way, then the names."""
        rows = {kind: [(view, [*self._facts(view)]) for view in shown if type(view) is kind] for kind in _ORDER}
        rows = {kind: each for kind, each in rows.items() if each}
        width = self._console.width
        gap = 2 if width >= _WIDE else 1
        # The width of a line that is left for name and bar.
        room = {kind: width - 1 - gap - _cells([facts for _, facts in each], gap) for kind, each in rows.items()}
        longest = max((cell_len(_name(view)) for each in rows.values() for view, _ in each), default=0)
        for kind, each in rows.items():
            names = min(longest, max(room[kind], _LEAST_NAME))
            bar = min(room[kind] - names - gap, _BAR_CELLS) if kind is JobView else 0
            yield self._table(each, gap, names, bar if bar >= _LEAST_BAR else 0)

    def _table(self, rows: Sequence[tuple[View, list[Text]]], gap: int, names: int, bar: int) -> Table:
        table = Table.grid(padding=(0, gap))
        table.add_column(no_wrap=True)
        # Names have the same width in all tables, where there is room.
        table.add_column(no_wrap=True, min_width=names)
        if bar:
            table.add_column(no_wrap=True)
        for align in _ALIGNED[type(rows[0][0])]:
            table.add_column(no_wrap=True, justify=align)
        for view, facts in rows:
            name = Text(_name(view), style="bold")
            name.truncate(names, overflow="ellipsis")
            bars = [_bar(view, bar)] if bar and isinstance(view, JobView) else []
            table.add_row(self._mark(view), name, *bars, *facts)
        return table

    def _mark(self, view: View) -> RenderableType:
        mark, style = _STYLES.get(view.state, ("", ""))
        return Text(mark, style=style) if mark else Text("·", "yellow") if view.has_ended else self._spinner

    def _facts(self, view: View) -> Iterable[Text]:
        """Yield the columns after mark, name and bar."""
        match view:
            case JobView():
                yield from self._of_job(view)
            case CronJobView():
                yield from self._of_cronjob(view)
            case PodView():
                yield Text(f"{view.ready}/{view.containers} ready", style="" if view.ready else "dim")
                yield Text(f"{view.restarts} restarts", style="yellow" if view.restarts else "dim")
                yield Text(duration(view, self._clock.now()))
        yield Text(printable(view.state), style=_STYLES.get(view.state, ("", "cyan"))[1])

    def _of_job(self, view: JobView) -> Iterable[Text]:
        goal = "" if view.wanted is None else f"/{view.wanted}"
        yield Text(f"{view.succeeded}{goal}", style="green" if view.succeeded else "")
        yield Text(f"{view.active} active", style="cyan" if view.active else "dim")
        yield Text(f"{view.ready} ready", style="" if view.ready else "dim")
        yield Text(f"{view.failed} failed", style="red" if view.failed else "dim")
        yield Text(duration(view, self._clock.now()))

    def _of_cronjob(self, view: CronJobView) -> Iterable[Text]:
        now = self._clock.now()
        coming = view.next_run(now)
        yield Text(printable(view.schedule))
        yield Text(f"{view.active} active", style="cyan" if view.active else "dim")
        last = f"last {human_duration(now - view.last)} ago" if view.last else "last none"
        yield Text(last, style="" if view.last else "dim")
        following = f"next in {human_duration(coming - now)}" if coming else "next none"
        yield Text(following, style="" if coming else "dim")


def _reason(view: View) -> Text:
    mark, style = _STYLES.get(view.state, ("!", "yellow"))
    return _one_line(f"{mark} {shown_name(view.key)}: {view.why}", style)


def _aligned(events: Collection[EventView]) -> Iterable[Text]:
    """Yield the events as lines with aligned columns; long ones are not aligned."""
    warned = len(WARNING) if any(event.warning for event in events) else 0
    about = min(max((len(event.about) for event in events), default=0), _ABOUT_CELLS)
    reason = max((len(event.reason) for event in events), default=0)
    for event in events:
        mark = f"{WARNING if event.warning else '':<{warned}}"
        line = f"{mark}{event.about:<{about}}  {event.reason:<{reason}}  {event.message}"
        yield _one_line(line, "yellow" if event.warning else "dim")


def _one_line(text: str, style: str) -> Text:
    return Text(printable(text), style=style, no_wrap=True, overflow="ellipsis")


def _name(view: View) -> str:
    return printable(shown_name(view.key))


def _cells(rows: Sequence[Sequence[Text]], gap: int) -> int:
    """Return how many cells these columns take, with the gap before each."""
    return sum(gap + max(text.cell_len for text in column) for column in zip(*rows, strict=True))


def _bar(view: JobView, width: int) -> Text:
    done, active, rest = shares(view, width)
    failed = view.state in ("Failed", "FailureTarget")
    return Text.assemble(
        ("━" * done, "green"), ("━" * active, "cyan"), ("━" * rest, "red" if failed else "bright_black")
    )


def _most_telling(views: Iterable[View], room: int) -> tuple[list[View], int]:
    """Return the items to show, running ones and Jobs first, and the number of omitted ones."""
    ordered = sorted(views, key=lambda view: (view.has_ended, _PRECEDENCE.index(type(view))))
    return ordered[:room], max(0, len(ordered) - room)
