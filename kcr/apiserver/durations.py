"""Durations: in numbers of seconds that clients send, and as people read them: `45s`, `3m20s`, `5h`, `2d3h`.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/util/duration/duration.go, HumanDuration.
"""

from datetime import datetime, timedelta

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_YEAR = 365 * _DAY
# What Python's calendar has room for on both sides of any present.
_LONGEST = 100 * _YEAR
# Below the bound a duration is shown in the unit, and in the smaller one when there is a rest.
_ROWS = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)


def span(seconds: int) -> timedelta:
    """Return a duration of so many seconds, at most a hundred years: clients send any number of 64 bits."""
    return timedelta(seconds=max(-_LONGEST, min(seconds, _LONGEST)))


def human(duration: timedelta) -> str:
    """Return a duration in one or two units; `<invalid>` when it is below minus one second."""
    seconds = int(duration.total_seconds())
    if seconds < 0:
        return "<invalid>" if seconds < -1 else "0s"
    for bound, unit, name, smaller, smaller_name in _ROWS:
        if seconds < bound:
            rest = seconds % unit // smaller if smaller else 0
            return f"{seconds // unit}{name}{rest}{smaller_name}" if rest else f"{seconds // unit}{name}"
    return f"{seconds // _YEAR}y"


def age(moment: str | None, now: datetime) -> str:
    """Return how long ago a timestamp was; `<unknown>` when there is none."""
    return human(now - datetime.fromisoformat(moment)) if moment else "<unknown>"
