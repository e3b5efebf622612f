"""Event recording: a controller's reports about an object, for `kubectl describe`."""

from kcr.events.correlator import SpamLimit
from kcr.events.recorder import EventRecorder

__all__ = ["EventRecorder", "SpamLimit"]
