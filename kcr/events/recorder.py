"""Events: what a controller tells people about an object. Best effort: they never fail or delay a reconcile."""

import asyncio
import random
from collections import Counter, deque

import structlog

from kcr.api.core import Event, reference_to
from kcr.api.meta import Resource, whole_seconds
from kcr.client import Client
from kcr.clock import Clock
from kcr.errors import AlreadyExistsError, ApiError, NotFoundError, TransportError
from kcr.events.correlator import Correlator, LeftOut, Note, Seen, SpamLimit

_log = structlog.get_logger()

QUEUE_LENGTH = 1000
MESSAGE_BYTES = 1024
REASON_LENGTH = 128
# How long a process that ends goes on writing; it is to be gone within a second.
FLUSH_SECONDS = 0.3
# Source: client-go/tools/record/event.go, maxTriesPerEvent and defaultSleepDuration.
TRIES = 12
RETRY_SECONDS = 10.0


class EventRecorder:
    """Writes events in the name of one component, one after the other and in their order.

    Identical events are merged into one that counts; from the tenth message on, similar ones are combined; and
    one object's events are limited to a burst of 25 and one more in five minutes; an event then says how many were
    left out. Each is a log line as well, whatever becomes of it.

    Attributes:
        dropped: How many events were not written, by reason: `queue_full`, `spam` (its object had too many),
            `refused` by the server, `unreachable`, or `shutdown`, which left no time.

    Source: client-go/tools/record, event.go and events_cache.go; there nothing tells what was left out.
    """

    def __init__(
        self,
        client: Client,
        component: str,
        *,
        clock: Clock,
        random: random.Random,
        spam_limit: SpamLimit = SpamLimit(),  # noqa: B008  # a value
    ) -> None:
        """Make a recorder; it writes nothing before it runs.

        Args:
            client: Where events are written.
            component: In whose name.
            clock: What time it is.
            random: Names events and spreads retries.
            spam_limit: How many events one object may have.
        """
        self._client = client
        self._clock = clock
        self._random = random
        self._correlator = Correlator(component, clock, random, spam_limit)
        self._notes: deque[Note] = deque()
        self._arrived = asyncio.Event()
        # Taken from the notes and not yet written: an interrupted write is made again by the flush.
        self._unwritten: Seen | None = None
        # What was left out and has not been told yet, with the timer that will tell it.
        self._untold: dict[LeftOut, asyncio.TimerHandle] = {}
        self.dropped: Counter[str] = Counter()

    def event(self, about: Resource, type: str, reason: str, message: str) -> None:  # noqa: A002  # the field's name
        """Tell people about an object. Never waits, and never fails.

        Args:
            about: The object.
            type: `Normal` or `Warning`.
            reason: Why, as one CamelCase word for machines; cut at 128 characters.
            message: What happened, in words; cut at 1,024 bytes.
        """
        log = _log.info if type == "Warning" else _log.debug
        log("event", kind=about.resource.kind, object=str(about.key), type=type, reason=reason, note=message)
        if len(self._notes) >= QUEUE_LENGTH:
            self.dropped["queue_full"] += 1
            return
        now = whole_seconds(self._clock.now())
        self._add(Note(reference_to(about), type, reason[:REASON_LENGTH], _cut(message), now))

    async def run(self) -> None:
        """Write events until cancelled; what is left then gets two seconds."""
        try:
            while True:
                await self._arrived.wait()
                await self._write_next(TRIES)
        except asyncio.CancelledError:
            await self._flush()
            raise

    def _add(self, note: Note) -> None:
        self._notes.append(note)
        self._arrived.set()

    def _leave_out(self, left_out: LeftOut) -> None:
        self.dropped["spam"] += 1
        seconds = left_out.summary_after_seconds
        if seconds is not None:
            self._untold[left_out] = asyncio.get_running_loop().call_later(seconds, self._summarise, left_out)

    def _summarise(self, left_out: LeftOut) -> None:
        self._untold.pop(left_out).cancel()
        self._add(left_out.summary(whole_seconds(self._clock.now())))

    async def _flush(self) -> None:
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                while self._notes or self._unwritten or self._untold:
                    if not self._notes:
                        for left_out in tuple(self._untold):
                            self._summarise(left_out)
                    await self._write_next(tries=1)
        except TimeoutError:
            self.dropped["shutdown"] += len(self._notes) + 1
            _log.warning("events lost at the end", count=len(self._notes) + 1)
        finally:
            for timer in self._untold.values():
                timer.cancel()

    async def _write_next(self, tries: int) -> None:
        if self._unwritten is None:
            match self._correlator.take(self._notes.popleft()):
                case LeftOut() as left_out:
                    self._leave_out(left_out)
                case seen:
                    self._unwritten = seen
        if self._unwritten is not None:
            await self._write(self._unwritten, tries)
            self._unwritten = None
        if not self._notes:
            self._arrived.clear()

    async def _write(self, seen: Seen, tries: int) -> None:
        """Write one event; only what got no answer is tried again."""
        for attempt in range(tries):
            try:
                await self._send(seen)
            except ApiError as error:
                self.dropped["refused"] += 1
                _log.info("event refused", name=seen.event.metadata.name, error=str(error))
            except TransportError as error:
                _log.info("event not written", name=seen.event.metadata.name, error=str(error), attempt=attempt)
                # The first pause is random, so that many recorders do not come back as one.
                share = self._random.random() if attempt == 0 else 1.0
                if attempt < tries - 1:
                    await asyncio.sleep(RETRY_SECONDS * share)
                continue
            return
        self.dropped["unreachable"] += 1

    async def _send(self, seen: Seen) -> None:
        event = seen.event
        if seen.written:
            change = {"count": event.count, "message": event.message, "lastTimestamp": event.last_timestamp}
            try:
                await self._client.merge_patch(Event, event.key, change)
            except NotFoundError:
                # Events are kept for an hour; this one has been cleared away.
                seen.written = False
            else:
                return
        try:
            await self._client.create(event)
        except AlreadyExistsError:
            # Our own: the answer to the try before was lost.
            _log.debug("event already written", name=event.metadata.name)
        seen.written = True


def _cut(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= MESSAGE_BYTES:
        return message
    return encoded[: MESSAGE_BYTES - 3].decode(errors="ignore") + "..."
