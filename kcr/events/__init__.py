"""Event recording: a controller's reports about an object, for `kubectl describe`."""

from kcr.events.correlator import SpamLimit
from kcr.events.forms import EventsApi, event_kind
from kcr.events.recorder import EventRecorder, single_event

__all__ = ["EventRecorder", "EventsApi", "SpamLimit", "event_kind", "single_event"]
