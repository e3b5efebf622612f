"""Reflector: lists and watches one kind into a store until cancelled."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Generic, TypeVar

from msgspec.structs import replace

from kcr.api.codec import WatchEvent
from kcr.api.meta import Resource
from kcr.client import Client
from kcr.client.wire.decoding import Undecodable, read_event, read_page
from kcr.client.wire.transport import accept, watch_query
from kcr.errors import ApiError, GoneError, KcrError, NotFoundError, TooManyRequestsError, TransportError
from kcr.informer.accumulator import ListAccumulator, ListTiming
from kcr.informer.phases import (
    Empty,
    Listed,
    Listing,
    LostEventError,
    NarrowedError,
    Next,
    Phase,
    ReflectorBackoff,
    Streaming,
    Watching,
    after_end,
    after_failure,
    in_words,
    is_unsupported,
)
from kcr.informer.selection import Selection
from kcr.informer.store import version_of
from kcr.informer.watchdog import Watchdog
from kcr.informer.writer import StoreWriter
from kcr.log import get_logger
from kcr.log.ratelimited import RateLimitedLogger

R = TypeVar("R", bound=Resource)

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_WATCH_SECONDS = 300.0
# How much longer than it should last a watch may be silent before its connection is given up.
_GRACE_SECONDS = 15.0
_WARNING_SECONDS = 10.0
# Initial events come in a rush. After three warnings, fewer in ten seconds are changes, of a server that marks no end.
_RUSH = 10
# A stream of initial events that breaks so often is given up in favour of pages, for so long. One that broke after
# a longer time counts for two: a proxy cuts it, and would cut the next one.
_BROKEN_STREAMS = 2
_PAGES_SECONDS = 600.0
_LONG_STREAM_SECONDS = 20.0
# After so many events the event loop may run other tasks.
_SLICE = 100

_log = get_logger("kcr.informer")


class Reflector(Generic[R]):
    """Lists and watches one selection into a store writer, through every failure.

    Contract: `run` ends by cancellation only. A list replaces the store's content as one change; watch events are
    applied in the server's order. A watch that ends is resumed from the last resourceVersion seen; one whose version
    has expired (410 Gone) is followed by a relist, at once, and one that has lost an event or sent one that names no
    object, after a pause. Failures back off exponentially, from 0.8 s to 30 s with jitter, and are logged at most once
    in 30 s. A watch that is silent beyond its bound is cut when the server knows more than it told (`Watchdog`). Where
    the server does not support WatchList, or the end of such a stream does not come, lists are read in pages.

    Lists always ask for the newest state, never for the last version seen or "0": pages of a given version come from
    the server's watch cache in one piece, which stops the loop for its whole length (ST-9), and "0" may show a past
    that this process has written to since. So no version can be too new or too old for a list (RF-4, RF-9).

    Attributes:
        error: Why the last attempt failed; None once one works.
        counts: How often it happened: `lists`, `streams` (WatchList) and `watches` begun; how watches ended,
            `timeout` (as they should), `short` (at once), `gone` (expired), `idle` (silent and cut) or `error`; `lost`
            events that a relist makes good; `relists`; `undecodable` objects; `foreign` events, of other replicas.
        selection: The listed and watched objects.
        is_filled: Whether a list has been stored.
        list_duration_seconds: How long the last list took.
    """

    def __init__(
        self, client: Client, selection: Selection[R], writer: StoreWriter[R], random: Random, counts: Counter[str]
    ) -> None:
        self.error: KcrError | None = None
        self.counts = counts
        self.selection: Selection[R] = selection
        # The selection with which the present stream was requested.
        self._requested = selection
        self.is_filled: bool = False
        self.list_duration_seconds: float = 0.0
        # When the first of the failures came that `error` is the last of.
        self._failing_since = 0.0
        self._client = client
        self._random = random
        self._backoff = ReflectorBackoff(random)
        self._failures = RateLimitedLogger(_log)
        self._list = ListAccumulator(selection, writer, self.counts)
        self._watchdog = Watchdog(self._is_behind)
        self._timing = ListTiming(0.0)
        self._phase: Phase = Empty()
        # Whether the server is thought to know WatchList.
        self._streams = True
        # How many streams have broken before the initial events ended, and until when pages are read instead.
        self._broken = 0
        self._pages_until = float("-inf")

    @property
    def list_progress(self) -> str:
        """How much of the list has come; empty when nothing has come yet."""
        match self._phase:
            case Streaming(events=events) if events:
                return f"{events} initial events so far"
            case Listing(pages=pages) if pages:
                return f"{pages} pages so far"
        return ""

    @property
    def is_absent(self) -> bool:
        """Whether the server does not have the kind, as far as is known."""
        return isinstance(self.error, NotFoundError)

    @property
    def last_error(self) -> str:
        """Why the last attempt failed, in the server's words; empty once one works."""
        return in_words(self.error) if self.error is not None else ""

    @property
    def failing_seconds(self) -> float:
        """How long every attempt has failed, if the last one did."""
        return asyncio.get_running_loop().time() - self._failing_since if self.error else 0.0

    @property
    def silence(self) -> str:
        """For how long the watch has been silent, in words, if that is unusual; the watchdog may yet find it dead."""
        seconds = self._watchdog.silent_seconds
        return f"nothing has come for {seconds:.0f} s, perhaps the server or a proxy is frozen" if seconds else ""

    @property
    def last_event_time(self) -> float:
        """The loop's time of the last watch event; `-inf` before the first."""
        return self._watchdog.last_event_time

    async def run(self) -> None:
        """List and watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watchdog.run(), name=f"watchdog of {self.selection}")
            while True:
                await self._advance()

    async def _advance(self) -> None:
        """Take one step, and go to the phase that it or its failure leads to."""
        loop = asyncio.get_running_loop()
        error: KcrError | None = None
        try:
            then = await self._step(self._phase)
        except NarrowedError as narrowed:
            then = after_failure(self._phase, narrowed, loop.time())
        except (ApiError, TransportError, LostEventError) as failure:
            error = failure
            then = after_failure(self._phase, error, loop.time())
            self._note(error, then, loop.time())
        # A list that follows a complete one; the first list, and its retries, are no relists.
        if isinstance(then.phase, Empty) and isinstance(self._phase, Listed | Watching):
            self.counts["relists"] += 1
        self._phase = then.phase
        if then.pause:
            await asyncio.sleep(self._backoff.pause_after(error, loop.time()))

    def relist(self, why: str) -> None:
        """Give up the watch, which has lost an event, and list again; nothing happens when a list is under way.

        Args:
            why: The evidence, for the log.
        """
        # A list that is under way is newer than the event that was lost.
        if isinstance(self._phase, Watching):
            self._watchdog.cut(LostEventError(why))

    def narrow(self, selection: Selection[R]) -> None:
        """Continue with a selection of fewer slots; a watch is resumed where it is. No other event is applied.

        Args:
            selection: The present one, with some of its slots.
        """
        self.selection = selection
        self._list.narrow(selection.slots)
        if isinstance(self._phase, Watching):
            self._watchdog.cut(NarrowedError("fewer slots are held"))

    def _leave_if_narrowed(self) -> None:
        if isinstance(self._phase, Watching) and self._requested is not self.selection:
            raise NarrowedError("slots were closed while the watch was being opened")

    async def _step(self, phase: Phase) -> Next:
        match phase:
            case Empty():
                # Objects that a previous attempt has read may be of another version.
                self._list.clear()
                if self._streams and asyncio.get_running_loop().time() >= self._pages_until:
                    return await self._stream()
                return Next(Listing(), pause=False)
            case Listing():
                return await self._list_page(phase)
            case Listed():
                self.counts["watches"] += 1
                return await self._follow(phase.version, initial_events=False)
            case Streaming() | Watching():
                raise AssertionError("a stream is left by its end or its failure")

    async def _list_page(self, phase: Listing) -> Next:
        if not phase.continue_:
            # The first page: later ones show the same version, as their token says.
            self.counts["lists"] += 1
            self._list.clear()
            self._timing = ListTiming(asyncio.get_running_loop().time())
        with self._timing.of("request"):
            body = await self._get({"limit": phase.limit or "", "continue": phase.continue_})
        with self._timing.of("decode"):
            page = read_page(self.selection.kind, body, self._list.keeps)
        for obj in page.objects:
            self._list.add(obj)
        for undecodable in page.undecodable:
            self._list.add(undecodable)
        metadata = page.metadata
        if metadata.continue_:
            return Next(Listing(continue_=metadata.continue_, limit=phase.limit, pages=phase.pages + 1), pause=False)
        await self._replace(metadata.resource_version)
        return Next(Listed(version=metadata.resource_version), pause=False)

    async def _get(self, query: Mapping[str, object]) -> bytes:
        accepted = accept(self.selection.kind, is_list=True)
        return await self._client.request("GET", self.selection.target(query), accept=accepted)

    async def _stream(self) -> Next:
        self.counts["streams"] += 1
        now = asyncio.get_running_loop().time()
        self._timing, self._phase = ListTiming(now), Streaming(began=now)
        self._warn_later(0)
        try:
            return await self._follow("", initial_events=True)
        except ApiError as error:
            if isinstance(self._phase, Streaming) and is_unsupported(error):
                # Until this process restarts: one request that is refused, and not one for each relist.
                self._streams = False
            raise
        except TransportError as error:
            # One that never opened says nothing of proxies: the server is away.
            if isinstance(self._phase, Streaming) and self._phase.open:
                self._note_broken(self._phase, error)
            raise
        finally:
            self._warning.cancel()

    def _note_broken(self, phase: Streaming, error: TransportError) -> None:
        now = asyncio.get_running_loop().time()
        self._broken += 2 if now - phase.began >= _LONG_STREAM_SECONDS else 1
        if self._broken >= _BROKEN_STREAMS:
            self._broken, self._pages_until = 0, now + _PAGES_SECONDS
            kind, events = str(self.selection), phase.events
            _log.warning(
                "WatchList was cut before its end, listing in pages", kind=kind, events=events, error=str(error)
            )

    async def _follow(self, version: str, *, initial_events: bool) -> Next:
        # Up to twice as long, so that the watches of many informers do not end at one moment.
        seconds = _WATCH_SECONDS * (1.0 + self._random.random())
        self._requested = self.selection
        path = self.selection.target(watch_query(version, seconds, initial_events=initial_events))
        loop = asyncio.get_running_loop()
        idle_seconds, accepted = seconds + _GRACE_SECONDS, accept(self.selection.kind)
        async with self._client.lines(path, idle_seconds=idle_seconds, accept=accepted) as lines:
            # The server has answered: from here on a failure is that of an open watch.
            if isinstance(self._phase, Listed):
                self._phase = Watching(version=version, began=loop.time())
                self.error = None
            elif isinstance(self._phase, Streaming):
                self._phase = replace(self._phase, open=True)
            async with self._watchdog.over_stream():
                self._leave_if_narrowed()
                read = 0
                async for line in lines:
                    if (foreign := self._list.skip_foreign(line)) is None:
                        await self._apply(read_event(self.selection.kind, line))
                    else:
                        self._skip(foreign)
                    read += 1
                    if read % _SLICE == 0:
                        # Reading from the connection's buffer never waits.
                        await asyncio.sleep(0)
        # The stream ended in good order, as it does at its timeout; all else is an exception.
        assert isinstance(self._phase, Streaming | Watching)
        then = after_end(self._phase, loop.time())
        self.counts["short" if then.pause else "timeout"] += 1
        return then

    async def _apply(self, event: WatchEvent[R] | Undecodable) -> None:
        is_bookmark = isinstance(event, WatchEvent) and event.type == "BOOKMARK"
        # First, in every phase: an event that names no object is a lost event of an unknown one.
        if not is_bookmark:
            self._list.check_key(event.type, event if isinstance(event, Undecodable) else event.object)
        self._watchdog.note_event(is_bookmark=is_bookmark)
        match self._phase:
            case Streaming() as phase:
                self._phase = await self._collect(phase, event)
                self._leave_if_narrowed()
            case Watching() as phase:
                # Applied before the version moves: a watch that breaks here is resumed at the event before this one,
                # and delivers it again (at-least-once).
                version = self._list.apply(event).resource_version or phase.version
                self._phase = Watching(version=version, began=phase.began, events=phase.events + 1)
                self._backoff.note_event()

    def _skip(self, version: str) -> None:
        """Note that an event is about an object of another replica, so that only its version counts."""
        self._watchdog.note_event(is_bookmark=False)
        if isinstance(self._phase, Watching):
            self._phase = replace(self._phase, version=version, events=self._phase.events + 1)

    async def _collect(self, phase: Streaming, event: WatchEvent[R] | Undecodable) -> Phase:
        if isinstance(event, Undecodable):
            self._list.add(event)
        elif event.type == "BOOKMARK":
            metadata = event.object.metadata
            if metadata.annotations.get(INITIAL_EVENTS_END) != "true":
                # The first bookmark marks the end, if the server and all proxies know WatchList.
                self._streams = False
                raise LostEventError("the end of the initial events")
            await self._replace(metadata.resource_version)
            self._broken = 0
            return Watching(version=metadata.resource_version, began=phase.began, events=phase.events + 1)
        elif event.type == "DELETED" or not self.selection.covers(event.object.metadata):
            self._list.remove(event.object.key)
        else:
            self._list.add(event.object)
        return replace(phase, events=phase.events + 1)

    async def _replace(self, version: str) -> None:
        # In slices; the store itself changes in one of them, so no reader sees half of a list.
        with self._timing.of("apply"):
            for _ in self._list.replace(version):
                await asyncio.sleep(0)
        self.error, self.is_filled = None, True
        self.list_duration_seconds = self._timing.finish(str(self.selection))

    async def _is_behind(self) -> bool:
        """Ask the server whether it is ahead of a silent watch; one whose server does not answer is dead as well."""
        phase = self._phase
        # A stream of initial events that is silent for so long is dead: there is no version yet to compare.
        if not isinstance(phase, Watching):
            return True
        shown = version_of(phase.version)
        try:
            present = await self._version({"limit": 1, "resourceVersion": "0"})
            if present < shown:
                # A cache of the server lags, or it was restored from a backup: such a one accepts the watch, and sends
                # nothing before its versions have caught up. Source: kubernetes/kubernetes#107457.
                present = await self._version({"limit": 1})
                if 0 < present < shown:
                    self._watchdog.cut(LostEventError(f"the server is at {present}, before {shown}: it was restored"))
        except TransportError:
            return True
        except ApiError:
            # The connection is alive.
            return False
        return present > shown

    async def _version(self, query: Mapping[str, object]) -> int:
        body = await self._get(query)
        return version_of(read_page(self.selection.kind, body).metadata.resource_version)

    def _note(self, error: KcrError, then: Next, now: float) -> None:
        kind = str(self.selection)
        if isinstance(then.phase, Listing):
            # Only the way changes: a server without WatchList, or pages that expired.
            _log.debug("falling back to list", kind=kind, error=str(error))
            return
        if isinstance(self._phase, Watching | Streaming) and self._watchdog.has_cut:
            self.counts["idle"] += 1
            _log.warning("watch was silent, reopened", kind=kind, error=str(error))
        elif isinstance(error, LostEventError) and not isinstance(self._phase, Empty | Listing):
            self.counts["lost"] += 1
            self._failures.warning(now, "watch lost an event, relisting", kind=kind, error=str(error))
        elif isinstance(error, GoneError):
            self.counts["gone"] += 1
            _log.info("watch expired (410 Gone), relisting", kind=kind, error=str(error))
        elif isinstance(self._phase, Watching) and isinstance(error, TransportError):
            self.counts["error"] += 1
            _log.info("watch closed unexpectedly, resuming", kind=kind, error=str(error))
        elif isinstance(error, TooManyRequestsError) and isinstance(self._phase, Listed | Watching):
            self.counts["error"] += 1
            _log.info("watch refused (429), retrying", kind=kind, error=str(error))
        elif isinstance(error, NotFoundError):
            if not self.is_absent:
                _log.warning("kind is not served, waiting for it", kind=kind, error=str(error))
        else:
            self.counts["error"] += 1
            does = type(then.phase).__name__.lower()
            self._failures.error(now, "watch failed", kind=kind, error=str(error), then=does)
        if self.error is None:
            self._failing_since = now
        self.error = error

    def _warn_later(self, events: int) -> None:
        self._warning = asyncio.get_running_loop().call_later(_WARNING_SECONDS, self._warn, events)

    def _warn(self, before: int) -> None:
        if isinstance(phase := self._phase, Streaming):
            now = asyncio.get_running_loop().time()
            seconds = now - phase.began
            _log.warning("slow initial events", kind=str(self.selection), events=phase.events, seconds=round(seconds))
            self._warn_later(phase.events)
            if phase.open and phase.events < before + _RUSH and seconds > 2.5 * _WARNING_SECONDS:
                self._pages_until = now + _PAGES_SECONDS
                self._watchdog.cut(LostEventError("the end of the initial events"))
