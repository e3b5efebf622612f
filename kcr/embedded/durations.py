"""Durations as people read them: `45s`, `3m20s`, `5h`, `2d3h`.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/util/duration/duration.go, HumanDuration.
"""

from datetime import datetime, timedelta

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_YEAR = 365 * _DAY


def human(duration: timedelta) -> str:
    """Return a duration in one or two units; `<invalid>` when it is below minus one second."""
    seconds = int(duration.total_seconds())
    if seconds < 0:
        return "<invalid>" if seconds < -1 else "0s"
    if seconds < 2 * _MINUTE:
        return f"{seconds}s"
    if seconds < 10 * _MINUTE:
        return _two(seconds, _MINUTE, "m", 1, "s")
    if seconds < 3 * _HOUR:
        return f"{seconds // _MINUTE}m"
    if seconds < 8 * _HOUR:
        return _two(seconds, _HOUR, "h", _MINUTE, "m")
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR}h"
    if seconds < 8 * _DAY:
        return _two(seconds, _DAY, "d", _HOUR, "h")
    if seconds < 2 * _YEAR:
        return f"{seconds // _DAY}d"
    if seconds < 8 * _YEAR:
        return _two(seconds, _YEAR, "y", _DAY, "d")
    return f"{seconds // _YEAR}y"


def _two(seconds: int, large: int, large_name: str, small: int, small_name: str) -> str:
    rest = seconds % large // small
    return f"{seconds // large}{large_name}{rest}{small_name}" if rest else f"{seconds // large}{large_name}"


def age(moment: str | None, now: datetime) -> str:
    """Return how long ago a timestamp was; `<unknown>` when there is none."""
    return human(now - datetime.fromisoformat(moment)) if moment else "<unknown>"
