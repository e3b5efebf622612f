"""Events: what a controller tells people about an object."""

from kcr.events.correlator import SpamLimit
from kcr.events.recorder import EventRecorder

__all__ = ["EventRecorder", "SpamLimit"]
