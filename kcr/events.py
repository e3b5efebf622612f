"""Events: what a controller tells people about an object. Best effort: they never fail or delay a reconcile."""

import asyncio
import random
import re
import uuid
from collections import OrderedDict, deque
from collections.abc import Hashable
from datetime import datetime
from typing import Generic, NamedTuple, TypeVar

import structlog
from msgspec.structs import replace

from kcr.api.core import Event, EventSource, ObjectReference, reference_to
from kcr.api.meta import ObjectMeta, Resource, whole_seconds
from kcr.client import Client
from kcr.clock import Clock
from kcr.errors import AlreadyExistsError, ApiError, NotFoundError, TransportError

_log = structlog.get_logger()

QUEUE_LENGTH = 1000
MESSAGE_BYTES = 1024
FLUSH_SECONDS = 2.0
# Source: client-go/tools/record/event.go, maxTriesPerEvent and defaultSleepDuration.
TRIES = 12
RETRY_SECONDS = 10.0
# Source: client-go/tools/record/events_cache.go, the default constants.
REMEMBERED = 4096
SIMILAR_MESSAGES = 10
SIMILAR_SECONDS = 600.0
SPAM_BURST = 25
SPAM_REFILL_SECONDS = 300.0
SIMILAR_PREFIX = "(combined from similar events): "

_VALID_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class EventRecorder:
    """Writes events in the name of one component, one after the other and in their order.

    Identical events are merged into one that counts; from the tenth message on, similar ones are combined; and
    one object's events are limited to a burst of 25 and one more in five minutes. Each is a log line as well,
    whatever becomes of it.

    Attributes:
        dropped: How many events were not written because the queue was full or an object had too many.

    Source: client-go/tools/record, event.go and events_cache.go.
    """

    def __init__(self, client: Client, component: str, *, clock: Clock, random: random.Random) -> None:
        self._client = client
        self._clock = clock
        self._random = random
        self._correlator = _Correlator(component, clock, random)
        self._notes: deque[_Note] = deque()
        self._arrived = asyncio.Event()
        # Taken from the notes and not yet written: an interrupted write is made again by the flush.
        self._unwritten: _Seen | None = None
        self.dropped = 0

    def event(self, about: Resource, type: str, reason: str, message: str) -> None:  # noqa: A002  # the field's name
        """Tell people about an object. Never waits, and never fails.

        Args:
            about: The object.
            type: `Normal` or `Warning`.
            reason: Why, as one CamelCase word for machines.
            message: What happened, in words; cut at 1,024 bytes.
        """
        log = _log.info if type == "Warning" else _log.debug
        log("event", kind=about.resource.kind, object=str(about.key), type=type, reason=reason, note=message)
        if len(self._notes) >= QUEUE_LENGTH:
            self.dropped += 1
            return
        self._notes.append(_Note(reference_to(about), type, reason, _cut(message), whole_seconds(self._clock.now())))
        self._arrived.set()

    async def run(self) -> None:
        """Write events until cancelled; what is left then gets two seconds."""
        try:
            while True:
                await self._arrived.wait()
                await self._write_next(TRIES)
        except asyncio.CancelledError:
            await self._flush()
            raise

    async def _flush(self) -> None:
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                while self._arrived.is_set():
                    await self._write_next(tries=1)
        except TimeoutError:
            self.dropped += len(self._notes) + 1
            _log.warning("events lost at the end", count=len(self._notes) + 1)

    async def _write_next(self, tries: int) -> None:
        if self._unwritten is None:
            self._unwritten = self._correlator.take(self._notes.popleft())
        if self._unwritten is None:
            self.dropped += 1
        else:
            await self._write(self._unwritten, tries)
            self._unwritten = None
        if not self._notes:
            self._arrived.clear()

    async def _write(self, seen: "_Seen", tries: int) -> None:
        """Write one event; only what got no answer is tried again."""
        for attempt in range(tries):
            try:
                await self._send(seen)
            except ApiError as error:
                _log.info("event refused", name=seen.event.metadata.name, error=str(error))
            except TransportError as error:
                _log.info("event not written", name=seen.event.metadata.name, error=str(error), attempt=attempt)
                # The first pause is random, so that many recorders do not come back as one.
                share = self._random.random() if attempt == 0 else 1.0
                if attempt < tries - 1:
                    await asyncio.sleep(RETRY_SECONDS * share)
                continue
            return

    async def _send(self, seen: "_Seen") -> None:
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


class _Note(NamedTuple):
    """One event as it was recorded."""

    about: ObjectReference
    type: str
    reason: str
    message: str
    moment: datetime


class _Seen:
    """An event as it is to be on the server; `written` once it is there."""

    def __init__(self, event: Event) -> None:
        self.event = event
        self.written = False


class _Similar:
    """The messages of one object's events of one type and reason."""

    def __init__(self) -> None:
        self._messages: set[str] = set()
        self._last: datetime | None = None

    def are_many(self, note: _Note) -> bool:
        """Add a message; return whether there are so many different ones that they are to be combined."""
        if self._last is not None and (note.moment - self._last).total_seconds() > SIMILAR_SECONDS:
            self._messages.clear()
        self._last = note.moment
        if len(self._messages) < SIMILAR_MESSAGES:
            self._messages.add(note.message)
        return len(self._messages) >= SIMILAR_MESSAGES


class _SpamBucket:
    """Tokens of one object's events: a burst, and then one in a while."""

    def __init__(self) -> None:
        self._tokens = float(SPAM_BURST)
        self._last: datetime | None = None

    def has_token(self, moment: datetime) -> bool:
        """Take a token if there is one."""
        if self._last is not None:
            refill = (moment - self._last).total_seconds() / SPAM_REFILL_SECONDS
            self._tokens = min(self._tokens + max(refill, 0.0), SPAM_BURST)
        self._last = moment
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class _Correlator:
    """Decides what one more note means: a new event, one more of an old one, or nothing."""

    def __init__(self, component: str, clock: Clock, random: random.Random) -> None:
        self._component = component
        self._clock = clock
        self._random = random
        self._similar: _Recent[Hashable, _Similar] = _Recent()
        self._seen: _Recent[Hashable, _Seen] = _Recent()
        self._buckets: _Recent[Hashable, _SpamBucket] = _Recent()
        self._last_name = 0

    def take(self, note: _Note) -> _Seen | None:
        """Return the event to write, or None when the object has had too many."""
        about = (note.about.api_version, note.about.kind, note.about.namespace, note.about.name, note.about.uid)
        family = (about, note.type, note.reason)
        similar = self._similar.get(family) or self._similar.put(family, _Similar())
        combined = similar.are_many(note)
        message = SIMILAR_PREFIX + note.message if combined else note.message
        # All that are combined are one event, whatever they say.
        identity = (family, "" if combined else message)
        seen = self._seen.get(identity)
        if seen is None:
            seen = self._seen.put(identity, _Seen(self._new_event(note, message)))
        else:
            counted = replace(seen.event, count=seen.event.count + 1, message=message, last_timestamp=note.moment)
            seen.event = counted
        bucket = self._buckets.get((about, note.type)) or self._buckets.put((about, note.type), _SpamBucket())
        return seen if bucket.has_token(note.moment) else None

    def _new_event(self, note: _Note, message: str) -> Event:
        return Event(
            metadata=ObjectMeta(name=self._name(note.about.name), namespace=note.about.namespace or "default"),
            involved_object=note.about,
            type=note.type,
            reason=note.reason,
            message=message,
            source=EventSource(component=self._component),
            reporting_component=self._component,
            first_timestamp=note.moment,
            last_timestamp=note.moment,
            count=1,
        )

    def _name(self, about: str) -> str:
        """Name an event after its object and the nanosecond, as upstream does."""
        # The clock has microseconds only, and two events of one moment need two names, also from two recorders.
        nanoseconds = int(self._clock.now().timestamp() * 1_000_000) * 1000 + self._random.randrange(1000)
        self._last_name = max(nanoseconds, self._last_name + 1)
        suffix = f".{self._last_name:x}"
        if not _VALID_NAME.fullmatch(about) or len(about) + len(suffix) > 253:
            about = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        return about + suffix


class _Recent(Generic[K, V]):
    """Values by key; the one unused for longest goes when there are too many."""

    def __init__(self) -> None:
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> V:
        self._values[key] = value
        if len(self._values) > REMEMBERED:
            self._values.popitem(last=False)
        return value


def _cut(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= MESSAGE_BYTES:
        return message
    return encoded[: MESSAGE_BYTES - 3].decode(errors="ignore") + "..."
