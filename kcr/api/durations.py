"""Whole numbers and durations: as Go reads and prints them (`1m30s`), and as kubectl shows them: `3m20s`, `5h`."""

import re
from datetime import datetime, timedelta

# Digits beyond these are out of range whatever the bits.
_INTEGER = re.compile(r"([+-]?)(?=[0-9])0*+([0-9]{0,20})")
_NANOSECONDS = {
    "ns": 1, "us": 10**3, "\u00b5s": 10**3, "\u03bcs": 10**3, "ms": 10**6,
    "s": 10**9, "m": 60 * 10**9, "h": 3_600 * 10**9,
}  # fmt: skip
_TERM = re.compile(r"(?=\.?[0-9])([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")
# Go counts nanoseconds in 64 bits.
_LARGEST = 2**63 - 1
# Likewise, leading zeros aside; Python would not even read some.
_MOST_DIGITS = 19

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_YEAR = 365 * _DAY
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


def parse_int(text: str, bits: int = 64) -> int | None:
    """Return the whole number that a text says in decimal digits, or None when it says none, or one of more bits.

    Other than `int`, it takes neither spaces, underscores nor digits of other scripts, and any number of leading zeros:
    Python refuses texts of more than 4,300 digits, whatever they say.

    Args:
        text: A sign at most, and digits.
        bits: How many bits the number may have, its sign included.

    Source: Go's strconv.ParseInt, base 10.
    """
    found = _INTEGER.fullmatch(text)
    if found is None:
        return None
    number = int(f"{found[1]}{found[2] or 0}")
    limit = 1 << (bits - 1)
    return number if -limit <= number < limit else None


def parse_duration(text: str) -> int:
    """Return the nanoseconds of a duration such as `1h30m` or `-1.5s`, of at most 292 years.

    Raises:
        ValueError: The text is not a duration; the message is Go's.

    Source: Go's time.ParseDuration.
    """
    unsigned = text[1:] if text.startswith(("-", "+")) else text
    if unsigned == "0":
        return 0
    invalid = ValueError(f"time: invalid duration {_quoted(text)}")
    # The most negative duration has no positive counterpart.
    largest = _LARGEST + text.startswith("-")
    total, position = 0, 0
    while position < len(unsigned) or not unsigned:
        term = _TERM.match(unsigned, position)
        if term is None:
            raise invalid
        # Digits that are cut off here are out of range anyway, or less than a nanosecond.
        whole, fraction, unit = term[1].lstrip("0")[: _MOST_DIGITS + 1], (term[2] or "")[:_MOST_DIGITS], term[3]
        if not unit:
            raise ValueError(f"time: missing unit in duration {_quoted(text)}")
        if unit not in _NANOSECONDS:
            raise ValueError(f"time: unknown unit {_quoted(unit)} in duration {_quoted(text)}")
        total += int(whole or 0) * _NANOSECONDS[unit] + int(fraction or 0) * _NANOSECONDS[unit] // 10 ** len(fraction)
        if total > largest:
            raise invalid
        position = term.end()
    return -total if text.startswith("-") else total


def bounded_duration(text: str) -> timedelta:
    """Return a duration such as `10m` or `1h30m`: not negative, and of at most a hundred years.

    Raises:
        ValueError: The text is no such duration.
    """
    nanoseconds = parse_duration(text)
    if nanoseconds < 0 or nanoseconds > _LONGEST * 10**9:
        raise ValueError(f"duration {_quoted(text)} is not between 0 and 100 years")
    return timedelta(microseconds=nanoseconds // 1000)


def go_duration(seconds: int) -> str:
    """Return a duration of whole seconds, not negative, as Go prints it: `10s`, `1m20s`, `5m0s`."""
    minutes, rest = divmod(seconds, _MINUTE)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def human_duration(duration: timedelta) -> str:
    """Return a duration in one or two units; `<invalid>` when it is below minus one second.

    Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/util/duration/duration.go, HumanDuration.
    """
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
    return human_duration(now - datetime.fromisoformat(moment)) if moment else "<unknown>"


def _quoted(text: str) -> str:
    """Return a text as Go quotes it in durations, where only ASCII is shown as such."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    shown = (
        one if one.isascii() and one >= " " else "".join(f"\\x{byte:02x}" for byte in one.encode(errors="replace"))
        for one in escaped
    )
    return f'"{"".join(shown)}"'
