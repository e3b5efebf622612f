"""Fake event recorder: keeps events instead of writing them."""

import asyncio
from collections import Counter
from typing import NamedTuple

from kcr.api.core import ObjectReference
from kcr.api.meta import Key, Resource
from kcr.events import EventRecorder


class Recorded(NamedTuple):
    """One event as a controller recorded it."""

    about: Key
    type: str
    reason: str
    message: str

    def __str__(self) -> str:
        """Return type, reason and message, as `kubectl describe` has them."""
        return f"{self.type} {self.reason} {self.message}"


class FakeRecorder(EventRecorder):
    """Keeps the recorded events: none is aggregated, dropped or written.

    Attributes:
        events: All events, in their order.
    """

    def __init__(self) -> None:
        self.events: list[Recorded] = []
        self.dropped = Counter()

    def event(
        self,
        about: Resource | ObjectReference,
        type: str,  # noqa: A002  # the field's name
        reason: str,
        message: str,
    ) -> None:
        """Keep an event."""
        self.events.append(Recorded(about.key, type, reason, message))

    def find(self, reason: str, *, about: Key | None = None) -> list[Recorded]:
        """Return the events of one reason, about one object or all."""
        return [event for event in self.events if event.reason == reason and about in (None, event.about)]

    async def run(self) -> None:
        """Do nothing until cancelled."""
        await asyncio.get_running_loop().create_future()
