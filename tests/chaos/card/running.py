"""Stories in several processes: each lived under the laws, and counted."""

import asyncio
import logging
import multiprocessing
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from itertools import chain
from time import perf_counter
from types import FrameType
from typing import Any

import structlog

from kcr_devcluster.apiserver.server import HTTPRequest
from kcr_devcluster.observers import observing
from kcr_devcluster.testing.timeline import Timeline
from tests.chaos import tally
from tests.chaos.card import rows
from tests.chaos.card.results import Card, Result

# A shorter run takes some of the enumerated stories only.
_WHOLE_MINUTES = 15.0
# In seconds of wall clock: a story that takes longer has no end.
_LONGEST = 900
# How long an enumerated story takes, about; and the share of the time for them, in a run that is too short for all.
_STORY_SECONDS, _SHARE = 0.2, 0.4
_SHOWN = 20


def prepare() -> None:
    """Log errors of the program only: stories meet all others on purpose."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Writes:
    """The writes of a story; where a law breaks, those up to the one that breaks it."""

    def __init__(self, on_broken: Callable[[str, str], object]) -> None:
        """Record them while `recording` lives; `on_broken` is called with each broken law and its history."""
        self._timeline = Timeline()
        self._on_broken = on_broken
        # The laws that were broken amid a write, by its task. A write is recorded when it is answered.
        self._amid: dict[asyncio.Task[Any] | None, list[str]] = defaultdict(list)

    @contextmanager
    def recording(self) -> Iterator[None]:
        tally.ON_BROKEN[:] = [self._break]
        try:
            with self._timeline.recording(), observing(self._answer):
                yield
        finally:
            tally.ON_BROKEN.clear()

    def up_to(self, wrong: str) -> str:
        """Return the history up to now, which ends with a broken law."""
        return f"{self._timeline.text()}\n=> {wrong}"

    def _break(self, wrong: str, amid_write: bool) -> None:
        if amid_write:
            self._amid[asyncio.current_task()].append(wrong)
        else:
            self._on_broken(wrong, self.up_to(wrong))

    def _answer(self, request: HTTPRequest, response: object) -> None:
        for wrong in self._amid.pop(asyncio.current_task(), ()) if request.method != "GET" else ():
            self._on_broken(wrong, self.up_to(wrong))


def lived(story: str) -> Result:
    """Live a story, and return what it met, with the history of its writes up to the first broken law."""
    tally.clear()
    histories: dict[str, str] = {}
    writes, began = Writes(histories.setdefault), perf_counter()
    try:
        with writes.recording(), _at_most(_LONGEST):
            wrongs = rows.run(story)
    except Exception as error:
        # A controller that falls over is wrong as well.
        wrongs = [*histories, f"stories_end: {error!r}"]
    # Some broken laws are excused at the end of the story, and are not the first of it.
    history = (histories.get(wrongs[0]) or writes.up_to(wrongs[0])) if wrongs else ""
    faults, laws, compared = (dict(counter) for counter in (tally.FAULTS, tally.LAWS, tally.COMPARED))
    return Result(story, tuple(wrongs), history, faults, laws, compared, perf_counter() - began)


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    def ended(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"no end within {seconds} s of wall clock")

    signal.signal(signal.SIGALRM, ended)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def run(minutes: float, workers: int) -> Card:
    """Live stories, and return the card of them."""
    began, card = perf_counter(), Card(workers)
    context = multiprocessing.get_context("spawn")
    every = list(rows.enumerated())
    step = 1 if minutes >= _WHOLE_MINUTES else int(len(every) * _STORY_SECONDS / (minutes * 60 * _SHARE * workers)) + 1
    card.enumerated(every)
    stories, left = chain(every[::step], rows.drawn()), len(every[::step])
    with ProcessPoolExecutor(workers, context, prepare, max_tasks_per_child=400) as pool:
        pending: set[Future[Result]] = set()
        while True:
            while len(pending) < 2 * workers and (left > 0 or perf_counter() - began < 60 * minutes):
                pending.add(pool.submit(lived, next(stories)))
                left -= 1
            if not pending:
                break
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                _add(card, future.result())
    card.seconds = perf_counter() - began
    return card


def _add(card: Card, result: Result) -> None:
    card.add(result)
    if result.wrongs and len(card.broken) <= _SHOWN:
        print(failure(result), file=sys.stderr, flush=True)
    if card.stories % 500 == 0:
        print(f"card: {card.stories} stories, {len(card.broken)} with a broken law", file=sys.stderr, flush=True)


def failure(result: Result) -> str:
    """Return what was wrong with a story, how to live it again, and the history of its writes."""
    wrongs = "\n".join(f"  {wrong[:400]}" for wrong in result.wrongs[:5])
    return f"{result.story} broke a law:\n{wrongs}\n  again: make card STORY={result.story}\n{result.history}\n"
