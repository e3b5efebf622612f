"""Times as they are stored: in UTC, in whole seconds, or for MicroTime with exactly six digits.

Source: Go's time, format.go, Parse; kubernetes/staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/{time,micro_time}.go.
"""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

_CANONICAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_SECONDS, _MICROSECONDS = "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05.000000Z07:00"
_ZONE = "Z07:00"
# The pieces of a layout by Go's names, and what stands there; an hour may have one digit.
_PIECES = tuple(
    (name, re.compile(pattern, re.ASCII))
    for name, pattern in (
        ("2006", r"\d{4}"), ("-", "-"), ("01", r"\d\d"), ("-", "-"), ("02", r"\d\d"), ("T", "T"), ("15", r"\d\d?"),
        (":", ":"), ("04", r"\d\d"), (":", ":"), ("05", r"\d\d"), (".000000", r"[.,]\d{6}"),
        (_ZONE, r"Z|[+-]\d\d:\d\d"),
    )
)  # fmt: skip
_FRACTION = re.compile(r"[.,]\d+", re.ASCII)
# What is checked as soon as it is read; the day is not.
_RANGES = {"01": ("month", 1, 12), "15": ("hour", 0, 23), "04": ("minute", 0, 59), "05": ("second", 0, 59)}


def in_utc(moment: datetime, timespec: str) -> str:
    """Return a moment as it is stored; unlike strftime, years before 1000 have four digits."""
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=timespec)}Z"


@lru_cache(4096)
def whole_seconds(text: str) -> str:
    """Return a time in UTC without its fraction, such as `2026-01-01T00:00:00Z`.

    Raises:
        ValueError: The text is no RFC 3339 time; the message is the server's.
    """
    moment = _moment(text, _SECONDS)
    return text if _CANONICAL.fullmatch(text) else in_utc(moment, "seconds")


@lru_cache(1024)
def micro(text: str) -> str:
    """Return a MicroTime in UTC, such as `2026-01-01T00:00:00.000000Z`.

    Raises:
        ValueError: There are not exactly six fractional digits; the message is the server's.
    """
    return in_utc(_moment(text, _MICROSECONDS), "microseconds")


def _moment(text: str, layout: str) -> datetime:
    parts: dict[str, str] = {}
    rest = text
    for name, pattern in _PIECES:
        if name not in layout:
            # There may be a fraction all the same.
            rest = _FRACTION.sub("", rest, count=1) if _FRACTION.match(rest) else rest
            continue
        found = pattern.match(rest)
        if found is None:
            raise ValueError(f"{_parsing(text)} as {_quoted(layout)}: cannot parse {_quoted(rest)} as {_quoted(name)}")
        parts[name], rest = found[0], rest[found.end() :]
        if name in _RANGES:
            what, least, most = _RANGES[name]
            _check(text, what, least <= int(found[0]) <= most)
    sign, hours, minutes = parts[_ZONE][0], int(parts[_ZONE][1:3] or 0), int(parts[_ZONE][4:] or 0)
    _check(text, "time zone offset hour", hours <= 24)
    _check(text, "time zone offset minute", minutes <= 60)
    if rest:
        raise ValueError(f"{_parsing(text)}: extra text: {_quoted(rest)}")
    offset = timedelta(hours=hours, minutes=minutes)
    year, month, day, hour, minute, second = (int(parts[name]) for name in ("2006", "01", "02", "15", "04", "05"))
    try:
        # Go knows a year 0, a leap year as 4 is.
        local = datetime(year or 4, month, day, hour, minute, second, int(parts.get(".000000", ".0")[1:]), UTC)
        return local + offset if sign == "-" else local - offset
    except (OverflowError, ValueError):
        raise ValueError(f"{_parsing(text)}: day out of range") from None


def _check(text: str, what: str, is_in_range: bool) -> None:
    if not is_in_range:
        raise ValueError(f"{_parsing(text)}: {what} out of range")


def _parsing(text: str) -> str:
    return f"parsing time {_quoted(text)}"


def _quoted(text: str) -> str:
    """Return a text as Go's time quotes it, byte by byte."""
    made = (
        f"\\{chr(byte)}" if byte in b'"\\' else chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}"
        for byte in text.encode()
    )
    return f'"{"".join(made)}"'
