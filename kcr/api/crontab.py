"""The language of `spec.schedule`: five fields, descriptors such as `@hourly`, and `@every <duration>`.

Server and controller read it alike. This module parses it into a value; `cron` computes when that falls due.
"""

import os
import posixpath
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from errno import ENOENT
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from kcr.api.durations import parse_duration

# Unicode's white space; `str.split` would take the separators U+001C to U+001F as well.
_BLANKS = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
_WORD = re.compile(f"[^{_BLANKS}]+")
_INTEGER = re.compile("[+-]?[0-9]+")
_LARGEST = 2**63 - 1
# Numbers of more digits, leading zeros aside, are out of every range; Python would not even read some.
_MOST_DIGITS = 19

# Those of more directories than that overflow Python's stack.
_LONGEST_FILE_NAME = 255

_EVERY = "@every "
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class CronError(ValueError):
    """The text is not a schedule; the message says why, in the words that users know from Kubernetes."""


class UnknownZoneError(ValueError):
    """No time zone has this name."""


class Every(msgspec.Struct, frozen=True):
    """`@every <duration>`: a fixed delay of whole seconds, aligned to nothing."""

    delay: timedelta


class Fields(msgspec.Struct, frozen=True):
    """Five fields, each a set of bits: bit n is set when the value n matches.

    Attributes:
        minutes: 0 to 59.
        hours: 0 to 23.
        days: Days of the month, 1 to 31.
        months: 1 to 12.
        weekdays: 0 is Sunday.
        both_days: Whether the day of the month and the weekday must both match, and not just one of them.
        zone: The zone that the text itself names, or None.
    """

    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int
    both_days: bool
    zone: tzinfo | None = None

    def is_day(self, wall: datetime) -> bool:
        """Return whether the day of this reading matches."""
        by_date = self.days >> wall.day & 1
        by_name = self.weekdays >> wall.isoweekday() % 7 & 1
        return bool(by_date & by_name if self.both_days else by_date | by_name)

    def is_never(self) -> bool:
        """Return whether no calendar has a matching day and time: `0 0 31 2 *`, or a field without a value."""
        longest = 31 if self.months & ~_bits(2, 4, 6, 9, 11) else 30 if self.months & ~_bits(2) else 29
        dated = bool(self.days & (1 << longest + 1) - 1)
        named = bool(self.weekdays)
        has_day = dated and named if self.both_days else dated or named
        return not (self.minutes and self.hours and self.months and has_day)


Expression = Every | Fields


class Span(NamedTuple):
    """The range of a field: its smallest and largest value, and names of some values."""

    low: int
    high: int
    names: Mapping[str, int] = {}


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
SPANS = (
    Span(0, 59),
    Span(0, 23),
    Span(1, 31),
    Span(1, 12, {name: month for month, name in enumerate(_MONTHS, 1)}),
    Span(0, 6, {name: day for day, name in enumerate(_WEEKDAYS)}),
)


def load_zone(name: str) -> tzinfo:
    """Return the time zone of an IANA name; the empty name is UTC.

    Raises:
        UnknownZoneError: No zone has this name: `unknown time zone <name>`, or why a file of this name is none.
    """
    if name in ("", "UTC"):
        return UTC
    if ".." in name or name[0] in "/\\":
        raise UnknownZoneError("time: invalid location name")
    if len(name) > _LONGEST_FILE_NAME:
        raise UnknownZoneError("file name too long")
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise UnknownZoneError(_no_zone(name, error)) from error


def _no_zone(name: str, error: Exception) -> str:
    for known in (error, error.__context__):
        if isinstance(known, IsADirectoryError):
            return "is a directory"  # Python 3.14 gives no number with it
        if isinstance(known, OSError) and known.errno not in (None, ENOENT):
            return os.strerror(known.errno).lower()
    if isinstance(error, ValueError) and posixpath.normpath(name) == name:
        return "malformed time zone information"
    with suppress(KeyError, ValueError, OSError):
        ZoneInfo(posixpath.dirname(name))
        return "not a directory"
    return f"unknown time zone {name}"


@lru_cache(maxsize=4096)
def parse(text: str) -> Expression:
    """Return the parsed schedule.

    Args:
        text: Five fields or a descriptor, optionally after `TZ=<zone> ` or `CRON_TZ=<zone> `.

    Raises:
        CronError: It is not a schedule.

    Source: cronjob-controller §8, after github.com/robfig/cron, ParseStandard.
    """
    if not text:
        raise CronError("empty spec string")
    zone = None
    if text.startswith(("TZ=", "CRON_TZ=")):
        zone, text = _split_zone(text)
    if text.startswith("@"):
        if text.startswith(_EVERY):
            return _every(text)
        if text not in _DESCRIPTORS:
            raise CronError(f"unrecognized descriptor: {text}")
        text = _DESCRIPTORS[text]
    words = _WORD.findall(text)
    if len(words) != len(SPANS):
        raise CronError(f"expected exactly {len(SPANS)} fields, found {len(words)}: [{' '.join(words)}]")
    minute, hour, day, month, weekday = (_field(word, span) for word, span in zip(words, SPANS, strict=True))
    return Fields(minute[0], hour[0], day[0], month[0], weekday[0], both_days=day[1] or weekday[1], zone=zone)


def _split_zone(text: str) -> tuple[tzinfo, str]:
    prefix, blank, rest = text.partition(" ")
    if not blank:
        # Upstream turns its own crash into this message.
        raise CronError("invalid schedule format: runtime error: slice bounds out of range [:-1]")
    name = prefix.partition("=")[2]
    try:
        return load_zone(name), rest.strip(_BLANKS)
    except UnknownZoneError as error:
        raise CronError(f"provided bad location {name}: {error}") from error


def _field(text: str, span: Span) -> tuple[int, bool]:
    """Return the values of a field as a set of bits, and whether it counts as a star."""
    items = [_item(item, span) for item in text.split(",") if item]
    values = {value for item, _ in items for value in item}
    return sum(1 << value for value in values), any(starred for _, starred in items)


def _item(text: str, span: Span) -> tuple[range, bool]:
    """Return the values of `range[/step]`, and whether it counts as a star: a step beyond 1 makes it none."""
    spread, *steps = text.split("/")
    first, *last = spread.split("-")
    starred = first in ("*", "?")  # the text after a hyphen is ignored then
    if starred:
        start, end = span.low, span.high
    else:
        start = _value(first, span)
        if len(last) > 1:
            raise CronError(f"too many hyphens: {text}")
        end = _value(last[0], span) if last else start
    if len(steps) > 1:
        raise CronError(f"too many slashes: {text}")
    step = _natural(steps[0]) if steps else 1
    if steps and not last:
        end = span.high
    if complaint := _complaint(start, end, step, span):
        raise CronError(f"{complaint}: {text}")
    return range(start, end + 1, step), starred and step == 1


def _complaint(start: int, end: int, step: int, span: Span) -> str | None:
    if start < span.low:
        return f"beginning of range ({start}) below minimum ({span.low})"
    if end > span.high:
        return f"end of range ({end}) above maximum ({span.high})"
    if start > end:
        return f"beginning of range ({start}) beyond end of range ({end})"
    return None if step else "step of range should be a positive number"


def _value(text: str, span: Span) -> int:
    named = span.names.get(text.lower())
    return _natural(text) if named is None else named


def _natural(text: str) -> int:
    failure = f"failed to parse int from {text}: strconv.Atoi: parsing {_quoted(text)}"
    if not _INTEGER.fullmatch(text):
        raise CronError(f"{failure}: invalid syntax")
    digits = text.lstrip("+-0")
    number = int(digits[: _MOST_DIGITS + 1] or "0") * (-1 if text.startswith("-") else 1)
    if not -_LARGEST - 1 <= number <= _LARGEST:
        raise CronError(f"{failure}: value out of range")
    if number < 0:
        raise CronError(f"negative number ({number}) not allowed: {text}")
    return number


def _every(text: str) -> Every:
    try:
        seconds = parse_duration(text.removeprefix(_EVERY)) // 10**9
    except ValueError as error:
        raise CronError(f"failed to parse duration {text}: {error}") from error
    return Every(timedelta(seconds=max(seconds, 1)))


def _bits(*values: int) -> int:
    return sum(1 << value for value in values)


def _quoted(text: str) -> str:
    shown = (
        one if one.isprintable() else f"\\x{ord(one):02x}" if one.isascii() else f"\\u{ord(one):04x}"
        for one in text.replace("\\", "\\\\").replace('"', '\\"')
    )
    return f'"{"".join(shown)}"'
