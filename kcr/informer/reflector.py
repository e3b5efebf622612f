"""What fills a store: list and watch, for ever."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from random import Random
from typing import Generic, NamedTuple, Protocol, TypeVar

import structlog

from kcr.api.codec import WatchEvent
from kcr.api.meta import Key, Resource
from kcr.client import Client
from kcr.client.decoding import Refused, read_event, read_page
from kcr.client.requests import IDLE_SECONDS, target, watch_query
from kcr.errors import ApiError, GoneError, KcrError, TransportError
from kcr.informer.backoff import Backoff
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

R = TypeVar("R", bound=Resource)

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_WATCH_SECONDS = 300.0
_WARNING_SECONDS = 10.0

_log = structlog.get_logger("kcr.informer")


class Selection(NamedTuple, Generic[R]):
    """Which objects of a kind are followed; an empty namespace and empty selectors mean all."""

    kind: type[R]
    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def target(self, query: Mapping[str, object]) -> str:
        """Return the path and query of a request for these objects."""
        selectors = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return target(self.kind.resource.path(self.namespace), {**query, **selectors})


class Sink(Protocol[R]):
    """Where a reflector puts what it reads. All calls are synchronous."""

    def share(self, obj: R) -> R:
        """Return an object that is about to be handed over, made of known parts."""
        ...

    def replace(self, objects: Iterable[R], stale: Mapping[Key, str], version: str) -> None:
        """Take the whole present state."""
        ...

    def apply(self, event: WatchEvent[R]) -> None:
        """Take one ADDED, MODIFIED or DELETED event."""
        ...

    def advance(self, version: str) -> None:
        """Hear that nothing else happened up to a version."""
        ...

    def refuse(self, key: Key, why: str, version: str) -> None:
        """Hear that the newest version of an object cannot be decoded."""
        ...


class Reflector(Generic[R]):
    """Reads the present state of a kind and follows its changes, through every failure.

    Attributes:
        cause: Why the last attempt failed, in the server's words; empty once it works.
        counts: What happened how often: `lists`, `streams`, `watches`, `relists`, `idle`, `short`, `undecodable`.
    """

    def __init__(self, client: Client, selection: Selection[R], sink: Sink[R], random: Random) -> None:
        self.cause = ""
        self.counts: Counter[str] = Counter()
        self._client = client
        self._selection = selection
        self._sink = sink
        self._random = random
        self._backoff = Backoff(random)
        self._phase: Phase = Empty()
        # Whether the server is thought to know WatchList.
        self._streams = True
        # What was read of the present state that is not handed over yet.
        self._found: dict[tuple[str, str], R] = {}
        self._stale: dict[Key, str] = {}
        # The loop's time at the last sign of life of a stream.
        self._heard_at = 0.0

    async def run(self) -> None:
        """Read and follow until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                then = await self._step(self._phase)
            except (ApiError, TransportError) as error:
                then = after_failure(self._phase, error, loop.time())
                self._note(error, then, loop.time())
            if isinstance(then.phase, Empty) and isinstance(self._phase, Listed | Watching):
                self.counts["relists"] += 1
            self._phase = then.phase
            if then.pause:
                await asyncio.sleep(self._backoff.pause(loop.time()))

    async def _step(self, phase: Phase) -> Next:
        match phase:
            case Empty():
                self._found, self._stale = {}, {}
                return await self._stream() if self._streams else Next(Listing(), pause=False)
            case Listing():
                return await self._list(phase)
            case Listed():
                return await self._watch(phase)
            case Streaming() | Watching():
                raise AssertionError("a stream is left by its end or its failure")

    async def _list(self, phase: Listing) -> Next:
        self.counts["lists"] += 1
        if not phase.continue_:
            self._found, self._stale = {}, {}
        # Always the newest state, never "0": pages of any version come from the server's cache in one piece,
        # which stops the loop for its whole length (ST-9), and may show a past that we have written to since.
        query = {"limit": phase.limit or "", "continue": phase.continue_}
        body = await self._client.request("GET", self._selection.target(query))
        page = read_page(self._selection.kind, body)
        for obj in page.objects:
            self._keep(obj)
        for refused in page.refused:
            self._refuse(refused)
        if page.metadata.continue_:
            return Next(Listing(continue_=page.metadata.continue_, limit=phase.limit), pause=False)
        self._hand_over(page.metadata.resource_version)
        return Next(Listed(version=page.metadata.resource_version), pause=False)

    async def _stream(self) -> Next:
        self.counts["streams"] += 1
        began = asyncio.get_running_loop().time()
        self._phase = Streaming(began=began)
        warning = asyncio.get_running_loop().call_later(_WARNING_SECONDS, self._warn_of_slow_stream)
        try:
            return await self._follow("", initial_events=True)
        except ApiError as error:
            if isinstance(self._phase, Streaming) and is_unsupported(error):
                self._streams = False
            raise
        finally:
            warning.cancel()

    async def _watch(self, phase: Listed) -> Next:
        self.counts["watches"] += 1
        return await self._follow(phase.version, initial_events=False)

    async def _follow(self, version: str, *, initial_events: bool) -> Next:
        seconds = _WATCH_SECONDS * (1.0 + self._random.random())
        query = watch_query(version, seconds, initial_events=initial_events)
        loop, kind = asyncio.get_running_loop(), self._selection.kind
        async with self._client.lines(self._selection.target(query)) as lines:
            self._heard_at = loop.time()
            if isinstance(self._phase, Listed):
                self._phase = Watching(version=version, began=loop.time())
                self.cause = ""
            async for line in lines:
                self._heard_at = loop.time()
                self._take(read_event(kind, line))
        assert isinstance(self._phase, Streaming | Watching)
        then = after_end(self._phase, loop.time())
        self.counts["short"] += then.pause
        return then

    def _take(self, event: WatchEvent[R] | Refused) -> None:
        match self._phase:
            case Streaming() as phase:
                self._phase = self._collect(phase, event)
            case Watching() as phase:
                self._phase = self._apply(phase, event)

    def _collect(self, phase: Streaming, event: WatchEvent[R] | Refused) -> Phase:
        if isinstance(event, Refused):
            self._refuse(event)
        elif event.type == "BOOKMARK":
            metadata = event.object.metadata
            if metadata.annotations.get(INITIAL_EVENTS_END) == "true":
                self._hand_over(metadata.resource_version)
                return Watching(version=metadata.resource_version, began=phase.began, events=phase.events + 1)
        elif event.type == "DELETED":
            self._found.pop(event.object.key, None)
            self._stale.pop(event.object.key, None)
        else:
            self._keep(event.object)
        return Streaming(began=phase.began, events=phase.events + 1)

    def _apply(self, phase: Watching, event: WatchEvent[R] | Refused) -> Phase:
        if isinstance(event, Refused):
            metadata = event.metadata
            self._report(event)
            self._sink.refuse(event.key, event.why, metadata.resource_version)
        else:
            metadata = event.object.metadata
            if event.type in ("ADDED", "MODIFIED", "DELETED"):
                self._sink.apply(event)
            elif event.type == "BOOKMARK":
                self._sink.advance(metadata.resource_version)
            else:
                _log.warning("unknown watch event", kind=self._selection.kind.resource.display, type=event.type)
        version = metadata.resource_version or phase.version
        return Watching(version=version, began=phase.began, events=phase.events + 1)

    def _keep(self, obj: R) -> None:
        shared = self._sink.share(obj)
        self._found[shared.metadata.namespace, shared.metadata.name] = shared

    def _refuse(self, refused: Refused) -> None:
        self._report(refused)
        self._found.pop(refused.key, None)
        self._stale[refused.key] = refused.why

    def _report(self, refused: Refused) -> None:
        self.counts["undecodable"] += 1
        display = self._selection.kind.resource.display
        _log.error("object does not fit its type", kind=display, key=str(refused.key), why=refused.why)

    def _hand_over(self, version: str) -> None:
        self._sink.replace(self._found.values(), self._stale, version)
        self._found, self._stale = {}, {}
        self.cause = ""

    def _note(self, error: KcrError, then: Next, now: float) -> None:
        display = self._selection.kind.resource.display
        if isinstance(self._phase, Watching | Streaming) and now - self._heard_at >= IDLE_SECONDS:
            # Nobody closed it, it only said nothing: a connection that is gone without a word (RF-19).
            self.counts["idle"] += 1
            _log.warning("watch was silent, reopened", kind=display, seconds=IDLE_SECONDS)
        elif isinstance(then.phase, Listing):
            # Only the way changes: a server without WatchList, or pages that expired.
            _log.debug("reads a list instead", kind=display, error=str(error))
            return
        elif isinstance(error, GoneError):
            _log.info("watch expired, reads all again", kind=display, error=str(error))
        elif str(error) != self.cause:
            # Each cause is told once; a server that is away for an hour is one line.
            _log.warning("watch failed", kind=display, error=str(error), then=type(then.phase).__name__.lower())
        self.cause = str(error)

    def _warn_of_slow_stream(self) -> None:
        if isinstance(self._phase, Streaming):
            display = self._selection.kind.resource.display
            _log.warning("initial events take long", kind=display, events=self._phase.events)
