"""Durations in Go's notation."""

import math
import re

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|m|s|us|µs|ns)")


def seconds_of(text: str) -> float:
    """Return the seconds of a duration such as `1m30s`, `250ms`, a bare number, or `forever`.

    Raises:
        ValueError: It is none of these.
    """
    if text == "forever":
        return math.inf
    parts = _PART.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    try:
        seconds = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is no duration") from None
    if not seconds >= 0:
        raise ValueError(f"{text!r} is no duration")
    return seconds


def text_of(seconds: float) -> str:
    """Return a duration of whole seconds as Go prints it, such as `10s`, `1m20s`, `5m0s`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
