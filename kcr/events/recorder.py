"""Event recorder: Kubernetes Events about an object. Best effort: it never fails or delays a reconcile."""

import asyncio
import random
import threading
from collections import Counter, deque
from contextlib import suppress
from typing import Annotated

from msgspec import Meta

from kcr.annotations import Text
from kcr.api.core import ObjectReference, reference_to
from kcr.api.meta import Resource
from kcr.arguments import check_of_call, checked, checked_on_failure
from kcr.client import Client
from kcr.client.context import WRITE_CONTEXT
from kcr.clock import Clock
from kcr.errors import AlreadyExistsError, ApiError, NotFoundError, TransportError
from kcr.events.correlator import Correlator, Dropped, OpenSeries, Seen, SpamLimit
from kcr.events.forms import CoreForm, EventsApi, Note, cut, event_form
from kcr.log import get_logger

_log = get_logger()

QUEUE_LENGTH = 1000
REASON_LENGTH = 128
# How long shutdown waits for the last events: a process ends within a second.
FLUSH_SECONDS = 0.3
# Source: client-go/tools/record/event.go, maxTriesPerEvent and defaultSleepDuration.
TRIES = 12
RETRY_SECONDS = 10.0
# How many names an event gets that are taken.
NAME_DRAWS = 3

_TYPES = ("Normal", "Warning")
EventType = Annotated[str, Meta(pattern=r"^(Normal|Warning)\Z", description="'Normal' or 'Warning'")]


class EventRecorder:
    """Writes the events of one component, in the order in which they were recorded.

    Identical events, and those of one cause, are merged into one that counts; from the tenth on, similar ones are
    aggregated; and one object's events are limited to a burst of 25 and one more in five minutes; a summary event then
    counts those that were dropped. Each is a log line as well, written or not. Through events.k8s.io, repeats are a
    series.

    Attributes:
        dropped: How many events were not written, by reason: `queue_full`, `spam` (its object had too many),
            `refused` by the server, `unreachable`, or `shutdown`, which left no time.

    Source: client-go/tools/record, event.go and events_cache.go; there is no summary. For events.k8s.io
    client-go/tools/events, event_recorder.go and event_broadcaster.go.
    """

    @checked
    def __init__(  # noqa: PLR0913  # the parts of an event, by name
        self,
        client: Client,
        component: Text,
        *,
        clock: Clock,
        random: random.Random,
        host: str = "",
        spam_limit: SpamLimit = SpamLimit(),  # noqa: B008  # a value
        api: EventsApi = "core",
    ) -> None:
        """Make a recorder; it writes nothing before it runs.

        Args:
            client: Where events are written.
            component: The source of the events, such as `job-controller`.
            clock: The source of time.
            random: Names events and spreads retries.
            host: On which machine the component runs; empty where that says nothing.
            spam_limit: How many events one object may have.
            api: The API group of the events: `core`, or `events.k8s.io`, whose repeats are series. Readers of either
                group see both.

        Raises:
            ValueError: There is no such group of events.
        """
        self._client = client
        self._clock = clock
        self._random = random
        self._form = event_form(api, component, host)
        self._correlator = Correlator(self._form, clock, random, spam_limit)
        self._notes: deque[Note] = deque()
        self._arrived = asyncio.Event()
        # Where it runs. Webhooks record events on a thread and a loop of their own.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = 0
        # In flight: when its write is cancelled, the flush writes it again.
        self._unwritten: Seen | None = None
        # Dropped events that no summary has counted yet, each with the timer of the summary.
        self._summaries: dict[Dropped, asyncio.Handle] = {}
        # Series whose count is to be written, and all that are open.
        self._counts: deque[Seen] = deque()
        self._series = OpenSeries(self._add_count)
        self.dropped: Counter[str] = Counter()

    @checked_on_failure
    def event(  # noqa: PLR0913  # the parts of an event, by name
        self,
        about: Resource | ObjectReference,
        type: EventType,  # noqa: A002  # the field's name
        reason: Text,
        message: str,
        *,
        action: str = "",
        related: Resource | ObjectReference | None = None,
        cause: str = "",
    ) -> None:
        """Record an event about an object. Never waits, and fails for wrong arguments only; in a dry run it is logged.

        Args:
            about: The object, or a reference to it or a part of it.
            type: `Normal` or `Warning`.
            reason: Why, as one CamelCase word for machines; cut at 128 characters.
            message: The description; cut at 1,024 bytes.
            action: The action that was done or failed, as one CamelCase word; empty for none, in events.k8s.io for the
                reason.
            related: A second object that it is about, such as a created one.
            cause: Repeats of one cause are one event, which counts them and has the last message, whatever the messages
                say. Empty for the message itself. For messages with parts that differ each time, such as a name that is
                drawn.
        """
        if type not in _TYPES or not reason:
            check_of_call(EventRecorder.event)((self, about, type, reason, message), {})
        log = _log.info if type == "Warning" else _log.debug
        reference = _reference(about)
        log("event", kind=reference.kind, object=str(about.key), type=type, reason=reason, note=message)
        if WRITE_CONTEXT.get().dry_run:
            # It would be written by another task, which knows of no dry run.
            return
        if len(self._notes) >= QUEUE_LENGTH:
            self.dropped["queue_full"] += 1
            return
        other = None if related is None else _reference(related)
        reason = reason[:REASON_LENGTH]
        self._add(Note(reference, type, reason, cut(message), self._clock.now(), action, other, cause))

    async def run(self) -> None:
        """Write events until cancelled; those that are left then are written within `FLUSH_SECONDS`, or lost."""
        self._loop, self._loop_thread = asyncio.get_running_loop(), threading.get_ident()
        try:
            while True:
                await self._arrived.wait()
                await self._write_next(TRIES)
        except asyncio.CancelledError:
            await self._flush()
            raise

    def _add(self, note: Note) -> None:
        self._notes.append(note)
        self._wake()

    def _add_count(self, seen: Seen) -> None:
        self._counts.append(seen)
        self._wake()

    def _wake(self) -> None:
        if self._loop is None or self._loop_thread == threading.get_ident():
            self._arrived.set()
            return
        # A program that ends has closed it.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._arrived.set)

    def _drop(self, dropped: Dropped) -> None:
        self.dropped["spam"] += 1
        seconds = dropped.summary_after_seconds
        if seconds is not None:
            self._summaries[dropped] = asyncio.get_running_loop().call_later(seconds, self._summarise, dropped)

    def _summarise(self, dropped: Dropped) -> None:
        self._summaries.pop(dropped).cancel()
        self._add(dropped.summary(self._clock.now()))

    async def _flush(self) -> None:
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                while self._notes or self._unwritten or self._summaries or self._counts:
                    if not self._notes:
                        for dropped in tuple(self._summaries):
                            self._summarise(dropped)
                    await self._write_next(tries=1)
                self._series.close()
                while self._counts:
                    await self._write_next(tries=1)
        except TimeoutError:
            self.dropped["shutdown"] += len(self._notes) + 1
            _log.warning("events dropped during shutdown", count=len(self._notes) + 1)
        finally:
            for timer in self._summaries.values():
                timer.cancel()

    async def _write_next(self, tries: int) -> None:
        if self._unwritten is None:
            self._unwritten = self._next()
        if self._unwritten is not None:
            await self._write(self._unwritten, tries)
            self._unwritten = None
        if not self._notes and not self._counts:
            self._arrived.clear()

    def _next(self) -> Seen | None:
        """Return the next event to write; None for a note that is not written now, or was taken already.

        None are left when another thread wakes this loop for a note that was written already.
        """
        if self._counts:
            return self._counts.popleft()
        if not self._notes:
            return None
        match self._correlator.correlate(self._notes.popleft(), asyncio.get_running_loop().time()):
            case Dropped() as dropped:
                self._drop(dropped)
            case Seen() as seen:
                if self._form.has_series and seen.count > 1:
                    self._series.follow(seen)
                return seen
        return None

    async def _write(self, seen: Seen, tries: int) -> None:
        """Write one event; only a write without an answer is retried."""
        for attempt in range(tries):
            try:
                await self._send(seen)
            except ApiError as error:
                self.dropped["refused"] += 1
                _log.info("event refused", name=seen.name, error=str(error))
            except TransportError as error:
                _log.info("event not written", name=seen.name, error=str(error), attempt=attempt)
                # The first pause is random, so that many recorders do not retry at the same moment.
                share = self._random.random() if attempt == 0 else 1.0
                if attempt < tries - 1:
                    await asyncio.sleep(RETRY_SECONDS * share)
                continue
            return
        self.dropped["unreachable"] += 1

    async def _send(self, seen: Seen) -> None:
        if seen.written or not await self._create(seen):
            event = seen.event
            assert event
            try:
                await self._client.merge_patch(type(event), event.key, self._form.change(event))
            except NotFoundError:
                # The server deletes events after an hour.
                seen.was_sent = False
                await self._create(seen)
        seen.written = seen.count
        if self._form.has_series:
            seen.written_at = asyncio.get_running_loop().time()
        else:
            seen.event = None

    async def _create(self, seen: Seen) -> bool:
        """Create an event; return False when it exists already, and its count has to be written."""
        draws = NAME_DRAWS
        while True:
            was_sent, seen.was_sent = seen.was_sent, True
            assert seen.event
            try:
                await self._client.create(seen.event)
            except AlreadyExistsError:
                if was_sent:
                    # Created by the try before, whose answer was lost.
                    _log.debug("event already written", name=seen.name)
                    return seen.count == 1
                # Another recorder's event of the same nanosecond: to count on it would overwrite its message.
                draws -= 1
                if not draws:
                    raise
                self._correlator.rename(seen)
            else:
                return True


def _reference(obj: Resource | ObjectReference) -> ObjectReference:
    return obj if isinstance(obj, ObjectReference) else reference_to(obj)


def single_event(component: str, about: ObjectReference, reason: str, message: str, clock: Clock) -> Resource:
    """Return an event of the core API for a command that writes one itself and ends.

    Args:
        component: Who reports.
        about: The object.
        reason: Why, as one CamelCase word.
        message: The description.
        clock: The time.
    """
    note = Note(about, "Normal", reason, message, clock.now())
    seen = Correlator(CoreForm(component, ""), clock, random.Random(), SpamLimit()).correlate(note, 0.0)
    assert isinstance(seen, Seen), "the first of its kind"
    assert seen.event
    return seen.event
