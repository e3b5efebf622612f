"""Why an object is where it is, and what happens next: what `kcr explain` shows."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import NamedTuple

import msgspec

from kcr.api.durations import human_duration


class Code(Enum):
    """The situation that an explanation describes, from the least to the most telling.

    Of several explanations of one object the one that ranks highest has the headline: a controller that fails or an
    event loop that is blocked goes before a status that was written when all was well.
    """

    FINE = "Fine"  # nothing suggests trouble
    ENDED = "Ended"  # finished, well or badly: nothing happens any more
    WAITING = "Waiting"  # for a time, or a step that comes by itself
    STATED = "Stated"  # the words of a reconciler that says no code
    RUNNING = "Running"  # its pods run, or are about to
    CREATING = "Creating"  # what is due now is to be created
    UNSTARTED = "Unstarted"  # it has no status: no controller has written one
    UNREADY = "Unready"  # its own conditions tell of trouble
    UNATTENDED = "Unattended"  # something is due, and no controller does it
    DELETING = "Deleting"
    PODS = "Pods"  # pods do not start, crash, or are not ready
    SLOW = "Slow"  # a reconcile takes long, or has no worker
    FAILING = "Failing"  # its reconciles fail
    HOT_LOOP = "HotLoop"  # it is reconciled without end
    REFUSED = "Refused"  # the API server refuses what is to be written
    RIVALS = "Rivals"  # several controllers work on it
    BLOCKED = "Blocked"  # the event loop of its controller stands still
    PAUSED = "Paused"
    ABSENT = "Absent"

    @property
    def rank(self) -> int:
        """How telling it is: its place in the order of the names."""
        return _RANKS[self]


_RANKS = {code: rank for rank, code in enumerate(Code)}


class Step(msgspec.Struct, frozen=True):
    """Something that happens next.

    Attributes:
        text: What happens.
        at: When; None when it follows from something else that the text names.
    """

    text: str
    at: datetime | None = None


class Situation(NamedTuple):
    """A situation that an object is in: its headline, the facts behind it, what is next, and what a user can do.

    `code` is what kind of situation it is.
    """

    headline: str
    reasons: Sequence[str] = ()
    steps: Sequence[Step] = ()
    remedies: Sequence[str] = ()
    code: Code = Code.WAITING


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted of an object, what is there, what happens next, and why.

    Attributes:
        headline: The one thing to know, without the object's name: `waits 38s before it replaces a failed pod`.
        wanted: What the spec asks for.
        present: What is there.
        next: What happens next, in the order of time; those without a time last.
        reasons: Facts that the headline follows from, the most telling first.
        remedies: What a user can do about it; empty when all is well.
        code: The kind of situation; it decides which of several headlines leads.
    """

    headline: str
    wanted: str = ""
    present: str = ""
    next: tuple[Step, ...] = ()
    reasons: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    code: Code = Code.STATED


# What an explanation of these kinds adds to one that ranks higher: nothing.
_SILENT = frozenset({Code.FINE, Code.UNSTARTED, Code.UNATTENDED})


def merged(explanation: Explanation, other: Explanation) -> Explanation:
    """Return two explanations of one object as one: the headline of the higher rank, the facts of both.

    Args:
        explanation: Has the headline when both rank alike, and says what is wanted and present.
        other: Another one.
    """
    if other.code.rank <= explanation.code.rank:
        return msgspec.structs.replace(
            explanation,
            reasons=_distinct(explanation.reasons, (other.headline,), other.reasons),
            remedies=_distinct(explanation.remedies, other.remedies),
        )
    adds = explanation.code not in _SILENT
    return msgspec.structs.replace(
        explanation,
        headline=other.headline,
        reasons=_distinct(other.reasons, (f"it {explanation.headline}",) if adds else (), explanation.reasons),
        remedies=_distinct(other.remedies, explanation.remedies if adds else ()),
        next=explanation.next if adds else (),
        code=other.code,
    )


def _distinct(*texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for part in texts for text in part if text))


def ordered(steps: list[Step]) -> tuple[Step, ...]:
    """Return steps in the order of time, those without a time last."""
    timed = sorted((step for step in steps if step.at is not None), key=lambda step: str(step.at))
    return (*timed, *(step for step in steps if step.at is None))


def ago(moment: datetime | None, now: datetime) -> str:
    """Return how long ago a moment was, as `5m ago`; `at an unknown time` for None."""
    return "at an unknown time" if moment is None else f"{human_duration(max(now - moment, timedelta()))} ago"


def in_time(moment: datetime, now: datetime) -> str:
    """Return how long it is until a moment, as `in 5m`; `now` for less than a second and for the past."""
    return f"in {human_duration(moment - now)}" if moment - now >= timedelta(seconds=1) else "now"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: `1 pod`, `2 pods`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
