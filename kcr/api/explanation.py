"""Why an object is where it is, and what happens next: what `kcr explain` shows."""

from datetime import datetime, timedelta

import msgspec

from kcr.api.durations import human_duration


class Step(msgspec.Struct, frozen=True):
    """Something that happens next.

    Attributes:
        text: What happens.
        at: When; None when it follows from something else that the text names.
    """

    text: str
    at: datetime | None = None


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted of an object, what is there, what happens next, and why.

    Attributes:
        headline: The one thing to know, without the object's name: `waits 38s before it replaces a failed pod`.
        wanted: What the spec asks for.
        present: What is there.
        next: What happens next, in the order of time; those without a time last.
        reasons: Facts that the headline follows from, the most telling first.
        remedies: What a user can do about it; empty when all is well.
    """

    headline: str
    wanted: str = ""
    present: str = ""
    next: tuple[Step, ...] = ()
    reasons: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()


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
