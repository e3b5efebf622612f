"""Forms of events: core/v1, whose repeats are counted one by one, and events.k8s.io/v1, whose repeats are a series.

Both are one object on the server, which every client reads through either group. The forms differ in the fields that a
recorder may write, and in the number of writes: a count costs one patch for each repeat, a series one for the first
repeat and then one in half an hour.

Source: client-go/tools/record/event.go and client-go/tools/events/event_recorder.go, makeEvent.
"""

import os
import socket
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from kcr.api.core import Event, EventSeries, EventSource, ObjectReference
from kcr.api.meta import MicroTime, ObjectMeta, Resource, whole_seconds

EventsApi: TypeAlias = Literal["core", "events.k8s.io"]

MESSAGE_BYTES = 1024
_NAME_LENGTH = 128


class SeriesEvent(Resource, api_version="events.k8s.io/v1", plural="events", kind="Event"):
    """The fields of an Event that its recorder writes through events.k8s.io."""

    event_time: MicroTime | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = msgspec.field(default_factory=ObjectReference)
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""


class Note(NamedTuple):
    """One call of `EventRecorder.event`."""

    about: ObjectReference
    type: str
    reason: str
    message: str
    moment: datetime
    action: str = ""
    related: ObjectReference | None = None
    cause: str = ""
    # A summary passes the spam filter that it reports on.
    is_summary: bool = False


class EventForm(Protocol):
    """How events are written.

    Attributes:
        has_series: Whether repeats are counted in memory, and written as a series now and then.
    """

    has_series: bool

    def make(self, name: str, note: Note, message: str) -> Resource:
        """Return a new event."""

    def repeat(self, event: Any, count: int, note: Note, message: str) -> Resource:
        """Return an event that has happened again; `count` times in all."""

    def change(self, event: Any) -> Mapping[str, object]:
        """Return the merge patch that writes the last repeat."""


class CoreForm:
    """Events of core/v1."""

    has_series = False

    def __init__(self, component: str, host: str) -> None:
        """Write events in the name of a component, which may run on a host."""
        self._source = EventSource(component=component, host=host)

    def make(self, name: str, note: Note, message: str) -> Event:
        """Return a new event."""
        moment = whole_seconds(note.moment)
        return Event(
            metadata=_metadata(name, note), involved_object=note.about, type=note.type, reason=note.reason,
            message=message, source=self._source, reporting_component=self._source.component, action=note.action,
            related=note.related, reporting_instance=self._source.host, first_timestamp=moment, last_timestamp=moment,
            count=1,
        )  # fmt: skip

    def repeat(self, event: Event, count: int, note: Note, message: str) -> Event:
        """Return the event with the new count; similar events have the last message."""
        return replace(event, count=count, message=message, last_timestamp=whole_seconds(note.moment))

    def change(self, event: Event) -> Mapping[str, object]:
        """Return the count, the message and the time."""
        return {"count": event.count, "message": event.message, "lastTimestamp": event.last_timestamp}


class SeriesForm:
    """Events of events.k8s.io/v1; the server requires all their fields, and changes none of them but the series."""

    has_series = True

    def __init__(self, component: str, host: str) -> None:
        """Write events in the name of a component, on a host; empty for this machine (EV-13)."""
        self._component = component
        host = host or os.environ.get("HOSTNAME") or socket.gethostname()
        self._instance = f"{component}-{host}"[:_NAME_LENGTH]

    def make(self, name: str, note: Note, message: str) -> SeriesEvent:
        """Return a new event; an action that is not known is its reason (EV-13)."""
        return SeriesEvent(
            metadata=_metadata(name, note), event_time=MicroTime.of(note.moment), type=note.type,
            reporting_controller=self._component, reporting_instance=self._instance, reason=note.reason,
            action=(note.action or note.reason)[:_NAME_LENGTH], regarding=note.about, related=note.related,
            note=cut(message),
        )  # fmt: skip

    def repeat(self, event: SeriesEvent, count: int, note: Note, message: str) -> SeriesEvent:
        """Return the event with a series; its note remains the first one."""
        return replace(event, series=EventSeries(count=count, last_observed_time=MicroTime.of(note.moment)))

    def change(self, event: SeriesEvent) -> Mapping[str, object]:
        """Return the series."""
        return {"series": event.series}


_FORMS: Mapping[EventsApi, Callable[[str, str], EventForm]] = {"core": CoreForm, "events.k8s.io": SeriesForm}


def event_form(api: EventsApi, component: str, host: str) -> EventForm:
    """Return the form of the events of an API group."""
    return _FORMS[api](component, host)


def event_kind(api: EventsApi) -> type[Resource]:
    """Return the type of the events that a recorder creates and patches."""
    return SeriesEvent if api == "events.k8s.io" else Event


def cut(message: str) -> str:
    """Cut a message to 1,024 bytes."""
    encoded = message.encode()
    if len(encoded) <= MESSAGE_BYTES:
        return message
    return encoded[: MESSAGE_BYTES - 3].decode(errors="ignore") + "..."


def _metadata(name: str, note: Note) -> ObjectMeta:
    return ObjectMeta(name=name, namespace=note.about.namespace or "default")
