"""Times and durations: their texts and their parts.

Source: github.com/google/cel-go/common/types/{timestamp,duration}.go; common/stdlib/standard.go, inTimeZone; Go's time.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from zoneinfo import TZPATH, ZoneInfo

from kcr.api.durations import parse_duration, parse_int
from kcr_devcluster.apiserver.cel.libraries.conversions import same
from kcr_devcluster.apiserver.cel.libraries.overloads import Functions, Overload
from kcr_devcluster.apiserver.cel.values import SECOND, Duration, EvaluationError, Timestamp
from kcr_devcluster.apiserver.protocol.gotexts import exact, quoted

_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_DAY = 86_400
_EPOCH = date(1970, 1, 1).toordinal()
# After so many years, and days, the calendar repeats; Python's has no years 0 and 10000.
_CYCLE, _CYCLE_DAYS = 400, 146_097


class CivilTime(NamedTuple):
    """A moment by calendar and clock; months, days and weekdays count from 0, as expressions count them."""

    year: int
    month: int
    day: int
    day_of_year: int
    weekday: int
    hours: int
    minutes: int
    seconds: int


def civil_time(seconds: int) -> CivilTime:
    """Return what calendar and clock show.

    Args:
        seconds: Since 1970, in the zone that is meant.
    """
    days, rest = divmod(seconds, _DAY)
    ordinal, years = days + _EPOCH, 0
    while ordinal < 1:
        ordinal, years = ordinal + _CYCLE_DAYS, years - _CYCLE
    while ordinal > date.max.toordinal():
        ordinal, years = ordinal - _CYCLE_DAYS, years + _CYCLE
    day = date.fromordinal(ordinal)
    day_of_year = ordinal - date(day.year, 1, 1).toordinal()
    hours, rest = divmod(rest, 3600)
    return CivilTime(
        day.year + years, day.month - 1, day.day - 1, day_of_year, day.isoweekday() % 7, hours, rest // 60, rest % 60
    )


def parse_timestamp(text: str) -> Timestamp:
    """Return the moment that a text of RFC 3339 stands for.

    Raises:
        EvaluationError: It stands for none.
    """
    failed = EvaluationError("type conversion error from 'string' to 'google.protobuf.Timestamp'")
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise failed
    year, month, day, hours, minutes, seconds = map(int, found.groups()[:6])
    east = int(found[9] or 0) * 3600 + int(found[10] or 0) * 60
    if hours > 23 or minutes > 59 or seconds > 59 or int(found[9] or 0) > 24 or int(found[10] or 0) > 60:
        raise failed
    try:
        # A year 0 is checked as the leap year that it is.
        days = date(year or _CYCLE, month, day).toordinal() - _EPOCH - (0 if year else _CYCLE_DAYS)
    except ValueError:
        raise failed from None
    offset = -east if found[8] == "-" else east
    whole = days * _DAY + hours * 3600 + minutes * 60 + seconds - offset
    return Timestamp.checked(whole * SECOND + int((found[7] or "").ljust(9, "0")[:9]), offset)


def timestamp_text(moment: Timestamp) -> str:
    """Return a moment as text of RFC 3339, in its own zone."""
    seconds, nanos = divmod(moment.nanos, SECOND)
    shown = civil_time(seconds + moment.offset)
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    east = abs(moment.offset) // 60
    zone = f"{'-' if moment.offset < 0 else '+'}{east // 60:02d}:{east % 60:02d}" if moment.offset else "Z"
    day = f"{shown.year:04d}-{shown.month + 1:02d}-{shown.day + 1:02d}"
    return f"{day}T{shown.hours:02d}:{shown.minutes:02d}:{shown.seconds:02d}{fraction}{zone}"


def _parse_duration(text: str) -> Duration:
    try:
        return Duration(parse_duration(text))
    except ValueError:
        raise EvaluationError("type conversion error from 'string' to 'google.protobuf.Duration'") from None


def _in_unit(nanos: int, unit: int) -> int:
    """Return how many whole units a duration has; what is left over does not count."""
    return nanos // unit if nanos >= 0 else -(-nanos // unit)


def duration_text(duration: Duration) -> str:
    """Return a duration in seconds, such as `1.5s`."""
    seconds = _in_unit(duration, SECOND)
    return f"{exact(seconds + (int(duration) - seconds * SECOND) / SECOND)}s"


def _offset(zone: str, moment: Timestamp) -> int:
    """Return how many seconds a zone, by its name or as `+05:30`, is east of UTC."""
    hours, colon, minutes = zone.partition(":")
    if not colon:
        return _named_offset(zone, moment.nanos // SECOND)
    hour, minute = _number(hours), _number(minutes)
    east = hour * 60 + (-minute if zone[0] == "-" else minute)
    # Go counts nanoseconds in 64 bits.
    wrapped = (east * 60 * SECOND + (1 << 63)) % (1 << 64) - (1 << 63)
    return _in_unit(wrapped, SECOND)


def _number(text: str) -> int:
    if (found := parse_int(text)) is None:
        why = "value out of range" if re.fullmatch("[+-]?[0-9]+", text) else "invalid syntax"
        raise EvaluationError(f"strconv.Atoi: parsing {quoted(text)}: {why}")
    return found


def _named_offset(name: str, seconds: int) -> int:
    if name in ("", "UTC", "Local"):
        return 0
    moment = min(max(datetime(1, 1, 2, tzinfo=UTC), _datetime(seconds)), datetime(9999, 12, 30, tzinfo=UTC))
    offset = moment.astimezone(_zone(name)).utcoffset()
    return int(offset.total_seconds()) if offset is not None else 0


def _datetime(seconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


@lru_cache(64)
def _zone(name: str) -> ZoneInfo:
    if ".." in name.replace("\\", "/").split("/") or name[0] in "/\\":
        raise EvaluationError("time: invalid location name")
    first: Exception | None = None
    for folder in TZPATH:
        try:
            with (Path(folder) / name).open("rb") as content:
                return ZoneInfo.from_file(content)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            first = first or error
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise EvaluationError(_why(name, first)) from None


def _why(name: str, error: Exception | None) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return "malformed time zone information" if error is not None else f"unknown time zone {name}"


# What the parts of a moment are called, in expressions and in the ids of their overloads.
_PARTS: dict[str, tuple[str, Callable[[CivilTime], int]]] = {
    "getFullYear": ("year", lambda shown: shown.year),
    "getMonth": ("month", lambda shown: shown.month),
    "getDayOfYear": ("day_of_year", lambda shown: shown.day_of_year),
    "getDayOfMonth": ("day_of_month", lambda shown: shown.day),
    "getDate": ("day_of_month_1_based", lambda shown: shown.day + 1),
    "getDayOfWeek": ("day_of_week", lambda shown: shown.weekday),
    "getHours": ("hours", lambda shown: shown.hours),
    "getMinutes": ("minutes", lambda shown: shown.minutes),
    "getSeconds": ("seconds", lambda shown: shown.seconds),
}
_UNITS = {"hours": 3600 * SECOND, "minutes": 60 * SECOND, "seconds": SECOND, "milliseconds": SECOND // 1000}


def _of_duration(name: str) -> Overload:
    unit = _UNITS[name]
    return Overload(f"duration_to_{name}", "int", ("duration",), lambda value: _in_unit(value, unit))


def _accessors(name: str, part: Callable[[CivilTime], int]) -> tuple[Overload, ...]:
    def call(moment: Timestamp, zone: str = "") -> int:
        return part(civil_time(moment.nanos // SECOND + (_offset(zone, moment) if zone else 0)))

    plain = Overload(f"timestamp_to_{name}", "int", ("timestamp",), call)
    # The one id that lacks a word.
    suffix = "tz" if name == "seconds" else "with_tz"
    zoned = Overload(f"timestamp_to_{name}_{suffix}", "int", ("timestamp", "string"), call)
    return (plain, zoned, *((_of_duration(name),) if name in _UNITS else ()))


def _milliseconds(moment: Timestamp, zone: str = "") -> int:
    # A zone has to be one, though no zone is off by parts of a second.
    _offset(zone, moment)
    return moment.nanos % SECOND // (SECOND // 1000)


def _no_duration(number: int) -> Duration:
    raise EvaluationError("type conversion error from 'int' to 'google.protobuf.Duration'")


def _of_seconds(seconds: int) -> Timestamp:
    return Timestamp.checked(seconds * SECOND)


FUNCTIONS: Functions = {
    **{function: _accessors(name, part) for function, (name, part) in _PARTS.items()},
    "getMilliseconds": (
        Overload("timestamp_to_milliseconds", "int", ("timestamp",), _milliseconds),
        Overload("timestamp_to_milliseconds_with_tz", "int", ("timestamp", "string"), _milliseconds),
        _of_duration("milliseconds"),
    ),
    "timestamp": (
        Overload("timestamp_to_timestamp", "timestamp", ("timestamp",), same, False),
        Overload("int64_to_timestamp", "timestamp", ("int",), _of_seconds, False),
        Overload("string_to_timestamp", "timestamp", ("string",), parse_timestamp, False),
    ),
    "duration": (
        Overload("duration_to_duration", "duration", ("duration",), same, False),
        Overload("int64_to_duration", "duration", ("int",), _no_duration, False),
        Overload("string_to_duration", "duration", ("string",), _parse_duration, False),
    ),
    "string": (
        Overload("duration_to_string", "string", ("duration",), duration_text, False),
        Overload("timestamp_to_string", "string", ("timestamp",), timestamp_text, False),
    ),
}
