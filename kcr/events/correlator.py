"""Event correlation: aggregates similar events, counts identical ones, and filters spam.

Source: client-go/tools/record/events_cache.go.
"""

import random
import re
import uuid
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from datetime import datetime
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from kcr.api.core import Event, EventSource, ObjectReference
from kcr.api.meta import ObjectMeta
from kcr.clock import Clock
from kcr.tokenbucket import TokenBucket

# Source: client-go/tools/record/events_cache.go, the default constants.
REMEMBERED = 4096
SIMILAR_MESSAGES = 10
SIMILAR_SECONDS = 600.0
SPAM_BURST = 25
SPAM_REFILL_SECONDS = 300.0
SIMILAR_PREFIX = "(combined from similar events): "
LEFT_OUT = "EventsLeftOut"
_REASONS_NAMED = 5

_VALID_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Note(NamedTuple):
    """One call of `EventRecorder.event`."""

    about: ObjectReference
    type: str
    reason: str
    message: str
    moment: datetime
    # A summary passes the spam filter that it reports on.
    is_summary: bool = False


class Seen:
    """An event as it is to be on the server.

    Attributes:
        event: The event.
        written: Whether it has been created.
        was_sent: Whether its creation was sent under its name, so that it may be there without an answer.
    """

    def __init__(self, event: Event) -> None:
        self.event = event
        self.written = False
        self.was_sent = False


class _Similar:
    """The messages of one object's events of one type and reason."""

    def __init__(self) -> None:
        self._messages: set[str] = set()
        self._last: datetime | None = None

    def are_many(self, note: Note) -> bool:
        """Add a message; return whether there are so many different ones that they are to be combined."""
        if self._last is not None and (note.moment - self._last).total_seconds() > SIMILAR_SECONDS:
            self._messages.clear()
        self._last = note.moment
        if len(self._messages) < SIMILAR_MESSAGES:
            self._messages.add(note.message)
        return len(self._messages) >= SIMILAR_MESSAGES


class SpamLimit(NamedTuple):
    """How many events one object may have (EV-10).

    Attributes:
        burst: How many at once.
        refill_seconds: How long one more takes after that.
        per_reason: Whether each reason is limited by itself; else all Normal events together, and all Warnings.
    """

    burst: int = SPAM_BURST
    refill_seconds: float = SPAM_REFILL_SECONDS
    per_reason: bool = False


class _SpamFilter:
    """Limits the events of one object by a token bucket, and counts those that it drops."""

    def __init__(self, limit: SpamLimit) -> None:
        self._bucket = TokenBucket(1 / limit.refill_seconds, limit.burst)
        # Reasons of the events dropped since the last summary.
        self._dropped: Counter[str] = Counter()

    def admits(self, now: float) -> bool:
        """Take a token if there is one."""
        if self._bucket.delay(now) > 0:
            return False
        self._bucket.reserve(now)
        return True

    def drop(self, reason: str, now: float) -> float | None:
        """Count an event that is not written; return the seconds until the summary is due, for the first only."""
        self._dropped[reason] += 1
        return self._bucket.delay(now) if self._dropped.total() == 1 else None

    def summary(self) -> str:
        """Return a message that counts the dropped events by reason, and forget them."""
        reasons = ", ".join(f"{count} {reason}" for reason, count in self._dropped.most_common(_REASONS_NAMED))
        more = " and others" if len(self._dropped) > _REASONS_NAMED else ""
        text = f"{self._dropped.total()} events were left out, for there were too many: {reasons}{more}"
        self._dropped.clear()
        return text


class Dropped(NamedTuple):
    """An event that the spam filter drops, because its object has had too many.

    Attributes:
        note: The event.
        summary_after_seconds: When the summary is due; None when its timer runs already.
        spam_filter: Counts the dropped events.
    """

    note: Note
    summary_after_seconds: float | None
    spam_filter: _SpamFilter

    def summary(self, moment: datetime) -> Note:
        """Return the event that says how many were dropped up to now."""
        note = self.note
        return Note(note.about, note.type, LEFT_OUT, self.spam_filter.summary(), moment, is_summary=True)


class Correlator:
    """Decides whether a recorded event is created, counted on an earlier one, or dropped as spam."""

    def __init__(self, source: EventSource, clock: Clock, random: random.Random, limit: SpamLimit) -> None:
        self._source = source
        self._limit = limit
        self._clock = clock
        self._random = random
        self._similar: _Recent[Hashable, _Similar] = _Recent()
        self._seen: _Recent[Hashable, Seen] = _Recent()
        self._filters: _Recent[Hashable, _SpamFilter] = _Recent()
        self._last_name = 0

    def correlate(self, note: Note, now: float) -> Seen | Dropped:
        """Return the event to create or to patch, or that the spam filter drops it; `now` is the time of the loop."""
        about = (note.about.api_version, note.about.kind, note.about.namespace, note.about.name, note.about.uid)
        family = (about, note.type, note.reason)
        combined = self._similar.get_or_make(family, _Similar).are_many(note)
        message = SIMILAR_PREFIX + note.message if combined else note.message
        # All similar events are one event, whatever their messages.
        identity = (family, None if combined else (note.about.field_path, message))
        seen = self._seen.get_or_make(identity, lambda: Seen(self._new_event(note, message)))
        seen.event = replace(seen.event, count=seen.event.count + 1, message=message, last_timestamp=note.moment)
        if note.is_summary:
            return seen
        limited = family if self._limit.per_reason else (about, note.type)
        spam_filter = self._filters.get_or_make(limited, lambda: _SpamFilter(self._limit))
        if spam_filter.admits(now):
            return seen
        return Dropped(note, spam_filter.drop(note.reason, now), spam_filter)

    def _new_event(self, note: Note, message: str) -> Event:
        return Event(
            metadata=ObjectMeta(name=self._name(note.about.name), namespace=note.about.namespace or "default"),
            involved_object=note.about,
            type=note.type,
            reason=note.reason,
            message=message,
            source=self._source,
            reporting_component=self._source.component,
            reporting_instance=self._source.host,
            first_timestamp=note.moment,
            last_timestamp=note.moment,
            count=0,  # counted with all that are the same
        )

    def rename(self, seen: Seen) -> None:
        """Give an event another name, because another recorder's event has it."""
        metadata = replace(seen.event.metadata, name=self._name(seen.event.involved_object.name))
        seen.event, seen.was_sent = replace(seen.event, metadata=metadata), False

    def _name(self, about: str) -> str:
        """Name an event after its object and the nanosecond, as upstream does."""
        # The clock has microseconds only, and two events of one moment need two names, also from two recorders.
        nanoseconds = int(self._clock.now().timestamp() * 1_000_000) * 1000 + self._random.randrange(1000)
        self._last_name = max(nanoseconds, self._last_name + 1)
        suffix = f".{self._last_name:x}"
        if not _VALID_NAME.fullmatch(about) or len(about) + len(suffix) > 253:
            about = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        return about + suffix


class _Recent(OrderedDict[K, V]):
    """LRU cache."""

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        if key not in self:
            self[key] = make()
            if len(self) > REMEMBERED:
                self.popitem(last=False)
        self.move_to_end(key)
        return self[key]
