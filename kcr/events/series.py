"""Series of repeated events that are open: a repeat is counted in memory, and the counts are written now and then.

The first repeat is written at once. After that a series is written once in half an hour while it lasts, and once more
when it is over: when the event has not happened for six minutes. A process that is killed loses the counts since the
last write; the event itself and its first repeat are on the server.

Source: client-go/tools/events/event_broadcaster.go, refreshExistingEventSeries and finishSeries.
"""

import asyncio
from collections.abc import Callable

from kcr.clock import TIMER_SLACK_SECONDS
from kcr.events.correlator import SERIES_SECONDS, Seen

REFRESH_SECONDS = 1800.0


class OpenSeries:
    """The open series of one recorder; without any it has no timer."""

    def __init__(self, write: Callable[[Seen], object]) -> None:
        """Follow no series yet; `write` is called with each whose count is to be written."""
        self._write = write
        self._open: dict[Seen, None] = {}
        self._timer: asyncio.Handle | None = None

    def follow(self, seen: Seen) -> None:
        """Follow the series of an event that has happened again."""
        self._open[seen] = None
        if self._timer is None:
            self._start_timer()

    def close(self) -> None:
        """Write all counts, and follow no series any more: the process ends."""
        for seen in self._open:
            self._write_count(seen)
        self._open.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _review(self) -> None:
        # Too early by a hair, the end of a series would wait for the next review.
        self._timer, now = None, asyncio.get_running_loop().time() + TIMER_SLACK_SECONDS
        for seen in tuple(self._open):
            if seen.is_over(now):
                del self._open[seen]
            elif now - seen.written_at < REFRESH_SECONDS:
                continue
            self._write_count(seen)
        if self._open:
            self._start_timer()

    def _start_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(SERIES_SECONDS, self._review)

    def _write_count(self, seen: Seen) -> None:
        # One that was never written was refused, or dropped as spam.
        if 0 < seen.written < seen.count:
            self._write(seen)
