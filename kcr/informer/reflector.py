"""What fills a store: list and watch, for ever."""

import asyncio
from collections import Counter
from random import Random
from typing import Generic, TypeVar

import structlog

from kcr.api.codec import WatchEvent
from kcr.api.meta import Resource
from kcr.client import Client
from kcr.client.decoding import Refused, read_event, read_page
from kcr.client.requests import watch_query
from kcr.errors import ApiError, ForbiddenError, GoneError, KcrError, NotFoundError, TransportError
from kcr.informer.backoff import Backoff
from kcr.informer.complaints import Complaints
from kcr.informer.intake import Intake, Sink
from kcr.informer.phases import (
    Empty,
    Listed,
    Listing,
    Next,
    Phase,
    Streaming,
    Watching,
    after_end,
    after_failure,
    is_unsupported,
)
from kcr.informer.selection import Selection
from kcr.informer.store import version_of
from kcr.informer.timing import Timing
from kcr.informer.watchdog import Watchdog

R = TypeVar("R", bound=Resource)

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_WATCH_SECONDS = 300.0
# How much longer than it should last a watch may be silent before its connection is given up.
_GRACE_SECONDS = 15.0
_WARNING_SECONDS = 10.0
# How often a kind is looked for that the server does not have.
_ABSENT_SECONDS = 10.0
# After so many events without a pause others get their turn.
_SLICE = 100

_log = structlog.get_logger("kcr.informer")


class Reflector(Generic[R]):
    """Reads the present state of a kind and follows its changes, through every failure.

    It always asks for the newest state, never for "the version I had" or "0": pages of a given version come from
    the server's cache in one piece, which stops the loop for its whole length (ST-9), and "0" may show a past that
    we have written to since. So there is no version to be too new or too old for a list (RF-4, RF-9).

    Attributes:
        cause: Why the last attempt failed, in the server's words; empty once it works.
        counts: What happened how often: `lists`, `streams` and `watches` begun; how these ended, `timeout` (as they
            should), `short` (at once), `gone` (the version expired), `idle` (silent and cut) or `error`; `relists`;
            objects that were `undecodable`.
        selection: What is read.
        is_filled: Whether the sink has been given a whole state.
        fill_seconds: How long it took to read the present state the last time.
    """

    def __init__(
        self, client: Client, selection: Selection[R], sink: Sink[R], random: Random, counts: Counter[str]
    ) -> None:
        self.cause = ""
        self.counts = counts
        self.selection = selection
        self.is_filled = False
        self.fill_seconds = 0.0
        self._client = client
        self._sink = sink
        self._random = random
        self._backoff = Backoff(random)
        self._complaints = Complaints()
        self._intake = Intake(selection, sink, self.counts)
        self._watchdog = Watchdog(self._is_behind)
        self._timing = Timing(0.0)
        self._phase: Phase = Empty()
        # Whether the server is thought to know WatchList.
        self._streams = True

    @property
    def progress(self) -> str:
        """How far the reading of the present state has come; empty when nothing has come yet."""
        match self._phase:
            case Streaming(events=events) if events:
                return f"{events} initial events so far"
            case Listing(pages=pages) if pages:
                return f"{pages} pages so far"
        return ""

    @property
    def heard_at(self) -> float:
        """The loop's time when something came last over a watch; `-inf` when nothing ever did."""
        return self._watchdog.heard_at

    async def run(self) -> None:
        """Read and follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watchdog.run(), name=f"watchdog of {self.selection}")
            while True:
                await self._advance()

    async def _advance(self) -> None:
        """Take one step, and stay where it or its failure leads to."""
        loop = asyncio.get_running_loop()
        error: ApiError | TransportError | None = None
        try:
            then = await self._step(self._phase)
        except (ApiError, TransportError) as failure:
            error = failure
            then = after_failure(self._phase, error, loop.time())
            self._note(error, then, loop.time())
        if isinstance(then.phase, Empty) and isinstance(self._phase, Listed | Watching):
            self.counts["relists"] += 1
        self._phase = then.phase
        if then.pause:
            await asyncio.sleep(self._pause(error, loop.time()))
        if self._sink.is_full:
            await self._sink.room()

    def _pause(self, error: ApiError | TransportError | None, now: float) -> float:
        if isinstance(error, NotFoundError):
            return _ABSENT_SECONDS
        wanted = error.retry_after_seconds if isinstance(error, ApiError) else 0.0
        return max(self._backoff.pause(now), wanted)

    async def _step(self, phase: Phase) -> Next:
        match phase:
            case Empty():
                self._intake.begin()
                return await self._stream() if self._streams else Next(Listing(), pause=False)
            case Listing():
                return await self._list(phase)
            case Listed():
                return await self._watch(phase)
            case Streaming() | Watching():
                raise AssertionError("a stream is left by its end or its failure")

    async def _list(self, phase: Listing) -> Next:
        if not phase.continue_:
            self.counts["lists"] += 1
            self._intake.begin()
            self._timing = Timing(asyncio.get_running_loop().time())
        query = {"limit": phase.limit or "", "continue": phase.continue_}
        with self._timing.of("request"):
            body = await self._client.request("GET", self.selection.target(query))
        with self._timing.of("decode"):
            page = read_page(self.selection.kind, body)
        for obj in page.objects:
            self._intake.keep(obj)
        for refused in page.refused:
            self._intake.keep(refused)
        metadata = page.metadata
        if metadata.continue_:
            return Next(Listing(continue_=metadata.continue_, limit=phase.limit, pages=phase.pages + 1), pause=False)
        await self._hand_over(metadata.resource_version)
        return Next(Listed(version=metadata.resource_version), pause=False)

    async def _stream(self) -> Next:
        self.counts["streams"] += 1
        now = asyncio.get_running_loop().time()
        self._timing, self._phase = Timing(now), Streaming(began=now)
        self._warn_later()
        try:
            return await self._follow("", initial_events=True)
        except ApiError as error:
            if isinstance(self._phase, Streaming) and is_unsupported(error):
                self._streams = False
            raise
        finally:
            self._warning.cancel()

    async def _watch(self, phase: Listed) -> Next:
        self.counts["watches"] += 1
        return await self._follow(phase.version, initial_events=False)

    async def _follow(self, version: str, *, initial_events: bool) -> Next:
        seconds = _WATCH_SECONDS * (1.0 + self._random.random())
        path = self.selection.target(watch_query(version, seconds, initial_events=initial_events))
        loop = asyncio.get_running_loop()
        async with self._client.lines(path, idle_seconds=seconds + _GRACE_SECONDS) as lines:
            if isinstance(self._phase, Listed):
                self._phase = Watching(version=version, began=loop.time())
                self.cause = ""
            async with self._watchdog.over_stream():
                read = 0
                async for line in lines:
                    await self._take(read_event(self.selection.kind, line))
                    read += 1
                    if read % _SLICE == 0:
                        # What a connection has in its buffer comes without a pause.
                        await asyncio.sleep(0)
                    if self._sink.is_full:
                        with self._watchdog.off_duty():
                            await self._sink.room()
        assert isinstance(self._phase, Streaming | Watching)
        then = after_end(self._phase, loop.time())
        self.counts["short" if then.pause else "timeout"] += 1
        return then

    async def _take(self, event: WatchEvent[R] | Refused) -> None:
        is_bookmark = isinstance(event, WatchEvent) and event.type == "BOOKMARK"
        self._watchdog.hear(is_bookmark=is_bookmark)
        match self._phase:
            case Streaming() as phase:
                self._phase = await self._collect(phase, event)
            case Watching() as phase:
                version = self._intake.apply(event).resource_version or phase.version
                self._phase = Watching(version=version, began=phase.began, events=phase.events + 1)

    async def _collect(self, phase: Streaming, event: WatchEvent[R] | Refused) -> Phase:
        if isinstance(event, Refused):
            self._intake.keep(event)
        elif event.type == "BOOKMARK":
            metadata = event.object.metadata
            if metadata.annotations.get(INITIAL_EVENTS_END) == "true":
                await self._hand_over(metadata.resource_version)
                return Watching(version=metadata.resource_version, began=phase.began, events=phase.events + 1)
        elif event.type == "DELETED":
            self._intake.drop(event.object.key)
        else:
            self._intake.keep(event.object)
        return Streaming(began=phase.began, events=phase.events + 1)

    async def _hand_over(self, version: str) -> None:
        with self._timing.of("apply"):
            for _ in self._intake.hand_over(version):
                await asyncio.sleep(0)
        self.cause, self.is_filled = "", True
        self.fill_seconds = self._timing.finish(str(self.selection))

    async def _is_behind(self) -> bool:
        """Ask the server whether it is ahead of a silent watch; one that does not answer is as good as dead."""
        phase = self._phase
        if not isinstance(phase, Watching):
            return True
        try:
            body = await self._client.request("GET", self.selection.target({"limit": 1, "resourceVersion": "0"}))
            present = read_page(self.selection.kind, body).metadata.resource_version
        except TransportError:
            return True
        except ApiError:
            # It is alive, and has other worries.
            return False
        return version_of(present) > version_of(phase.version)

    def _note(self, error: KcrError, then: Next, now: float) -> None:
        kind = str(self.selection)
        is_open = isinstance(self._phase, Watching | Streaming)
        if isinstance(then.phase, Listing):
            # Only the way changes: a server without WatchList, or pages that expired.
            _log.debug("reads a list instead", kind=kind, error=str(error))
            return
        if is_open and self._watchdog.has_cut:
            self.counts["idle"] += 1
            _log.warning("watch was silent, reopened", kind=kind, error=str(error))
        elif isinstance(error, GoneError):
            self.counts["gone"] += 1
            _log.info("watch expired, reads all again", kind=kind, error=str(error))
        elif isinstance(self._phase, Watching) and isinstance(error, TransportError):
            self.counts["error"] += 1
            _log.info("watch broke off, goes on", kind=kind, error=str(error))
        else:
            self.counts["error"] += 1
            does = type(then.phase).__name__.lower()
            self._complaints.tell(now, "watch failed", kind=kind, error=str(error), then=does)
        self.cause = _in_words(error)

    def _warn_later(self) -> None:
        self._warning = asyncio.get_running_loop().call_later(_WARNING_SECONDS, self._warn)

    def _warn(self) -> None:
        if isinstance(self._phase, Streaming):
            seconds = asyncio.get_running_loop().time() - self._phase.began
            kind, events = str(self.selection), self._phase.events
            _log.warning("initial events take long", kind=kind, events=events, seconds=round(seconds))
            self._warn_later()


def _in_words(error: KcrError) -> str:
    match error:
        case ForbiddenError():
            return f"forbidden, list and watch are needed: {error}"
        case NotFoundError():
            return f"absent: {error}"
        case TransportError():
            return f"unreachable: {error}"
    return str(error)
