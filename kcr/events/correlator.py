"""Event correlation: aggregates similar events, counts identical ones, and filters spam.

The repeats of a series of events.k8s.io have the same message. Upstream's series has all messages of a reason, and
loses all but the first, such as the cause of a second failure; kcr's has them all from the tenth message on.

The first repeat of a series is written at once, others every half hour, and when it is over (EV-11, EV-12). A process
that is killed loses the counts since the last write.

Source: client-go/tools/record/events_cache.go; for series client-go/tools/events/event_broadcaster.go.
"""

import asyncio
import random
import uuid
from collections import Counter
from collections.abc import Callable
from copy import copy
from datetime import datetime
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from kcr.api.meta import Resource
from kcr.api.resources import is_object_name
from kcr.clock import TIMER_SLACK_SECONDS, Clock
from kcr.events.forms import EventForm, Note
from kcr.tokenbucket import TokenBucket

# Source: client-go/tools/record/events_cache.go, the default constants.
REMEMBERED = 4096
SIMILAR_MESSAGES = 10
SIMILAR_SECONDS = 600.0
# As upstream's finishTime.
SERIES_SECONDS = 360.0
SPAM_BURST = 25
SPAM_REFILL_SECONDS = 300.0
SIMILAR_PREFIX = "(combined from similar events): "
LEFT_OUT = "EventsLeftOut"
_REASONS_NAMED = 5

V = TypeVar("V")

REFRESH_SECONDS = 1800.0


class Seen:
    """An event as it is to be on the server.

    Attributes:
        event: The event; None once it is written: a repeat makes it again.
        name: Its name.
        first: When it happened first.
        count: How often it has happened.
        at: When one of a series happened last, in the loop's time.
        written: The count on the server; 0 as long as it has not been created.
        written_at: When that of a series was written, in the loop's time.
        was_sent: Whether its creation was sent under its name, so that it may be there without an answer.
    """

    __slots__ = ("at", "count", "event", "first", "name", "was_sent", "written", "written_at")

    def __init__(self, event: Resource, first: datetime) -> None:
        self.event: Resource | None = event
        self.name: str = event.metadata.name
        self.first: datetime = first
        self.count: int = 0
        self.written: int = 0
        self.at: float = 0.0
        self.written_at: float = 0.0
        self.was_sent: bool = False

    def is_over(self, now: float) -> bool:
        """Return whether it has not happened for so long that its series is over (EV-12)."""
        return now - self.at >= SERIES_SECONDS


class _Similar:
    """The messages of one object's events of one type and reason."""

    __slots__ = ("_last", "_messages")

    def __init__(self) -> None:
        # Their hashes.
        self._messages: tuple[int, ...] = ()
        self._last: datetime | None = None

    def are_many(self, note: Note) -> bool:
        """Add a message; return whether there are so many different ones that they are to be combined."""
        if self._last is not None and (note.moment - self._last).total_seconds() > SIMILAR_SECONDS:
            self._messages = ()
        self._last = note.moment
        message = _hash(note.cause or note.message)
        if len(self._messages) < SIMILAR_MESSAGES and message not in self._messages:
            self._messages += (message,)
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


class _SpamFilter(TokenBucket):
    """Limits the events of one object by a token bucket, and counts those that it drops."""

    __slots__ = ("_dropped",)

    def __init__(self, limit: SpamLimit) -> None:
        super().__init__(1 / limit.refill_seconds, limit.burst)
        # Reasons of the events dropped since the last summary; None as long as there was none.
        self._dropped: Counter[str] | None = None

    def admits(self, now: float) -> bool:
        """Take a token if there is one."""
        return self.delay(now) <= 0 and self.take(now)

    def drop(self, reason: str, now: float) -> float | None:
        """Count an event that is not written; return the seconds until the summary is due, for the first only."""
        dropped = self._dropped = self._dropped or Counter()
        dropped[reason] += 1
        return self.delay(now) if dropped.total() == 1 else None

    def summary(self) -> str:
        """Return a message that counts the dropped events by reason, and forget them."""
        dropped, self._dropped = self._dropped or Counter[str](), None
        reasons = ", ".join(f"{count} {reason}" for reason, count in dropped.most_common(_REASONS_NAMED))
        more = " and others" if len(dropped) > _REASONS_NAMED else ""
        left_out = "1 event was" if dropped.total() == 1 else f"{dropped.total()} events were"
        return f"{left_out} left out, for there were too many: {reasons}{more}"


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

    def __init__(self, form: EventForm, clock: Clock, random: random.Random, limit: SpamLimit) -> None:
        self._form = form
        self._limit = limit
        self._full = _SpamFilter(limit)  # its copies share floats
        self._clock = clock
        self._random = random
        # By 60 bits of hashes, which take 32 bytes each; no two of so few meet.
        self._similar: _Recent[_Similar] = _Recent()
        self._seen: _Recent[Seen] = _Recent()
        self._filters: _Recent[_SpamFilter] = _Recent()
        self._last_name = 0

    def correlate(self, note: Note, now: float) -> Seen | Dropped | None:
        """Return the event to create or to patch, or that the spam filter drops it; `now` is the time of the loop.

        None stands for a repeat that is counted in its series, and written later.
        """
        about = (note.about.api_version, note.about.kind, note.about.namespace, note.about.name, note.about.uid)
        family = _hash(about, note.type, note.reason)
        combined = self._similar.get_or_make(family, _Similar).are_many(note)
        message = SIMILAR_PREFIX + note.message if combined else note.message
        # All similar events are one event, whatever their messages, and so are those of one cause.
        text = note.cause or message
        identity = _hash(family, None if combined else (note.about.field_path, text, note.action, note.related))
        if self._form.has_series and identity in self._seen and self._seen[identity].is_over(now):
            del self._seen[identity]
        seen = self._seen.get_or_make(identity, lambda: self._new(note, message))
        seen.count += 1
        if self._form.has_series:
            seen.at = now
        if seen.count > 1:
            event = seen.event or self._form.make(seen.name, note._replace(moment=seen.first), message)
            seen.event = self._form.repeat(event, seen.count, note, message)
        if self._form.has_series and seen.written > 1:
            return None
        if note.is_summary:
            return seen
        limited = family if self._limit.per_reason else _hash(about, note.type)
        spam_filter = self._filters.get_or_make(limited, lambda: copy(self._full))
        if spam_filter.admits(now):
            return seen
        return Dropped(note, spam_filter.drop(note.reason, now), spam_filter)

    def _new(self, note: Note, message: str) -> Seen:
        return Seen(self._form.make(self._name(note.about.name), note, message), note.moment)

    def rename(self, seen: Seen) -> None:
        """Give an event another name, because another recorder's event has it."""
        assert seen.event
        seen.name, seen.was_sent = self._name(seen.name.rpartition(".")[0]), False
        seen.event = replace(seen.event, metadata=replace(seen.event.metadata, name=seen.name))

    def _name(self, about: str) -> str:
        """Name an event after its object and the nanosecond, as upstream does."""
        # The clock has microseconds only, and two events of one moment need two names, also from two recorders.
        nanoseconds = int(self._clock.now().timestamp() * 1_000_000) * 1000 + self._random.randrange(1000)
        self._last_name = max(nanoseconds, self._last_name + 1)
        suffix = f".{self._last_name:x}"
        if not is_object_name(about + suffix):
            about = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        return about + suffix


def _hash(*parts: object) -> int:
    return hash(parts) & (1 << 60) - 1


class _Recent(dict[int, V]):
    """LRU cache; an OrderedDict takes twice the memory."""

    def get_or_make(self, key: int, make: Callable[[], V]) -> V:
        self[key] = self.pop(key, None) or make()
        if len(self) > REMEMBERED:
            del self[next(iter(self))]
        return self[key]


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
