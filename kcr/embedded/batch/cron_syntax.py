"""What a cron schedule may look like, and the words that refuse another.

The server judges the text alone; when a schedule fires is the business of the CronJob controller.

Source: cronjob-controller §§8.2-8.4; github.com/robfig/cron/v3/parser.go; Go's time.ParseDuration.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from kcr.embedded.batch.zones import is_zone

_ZONE_PREFIXES = ("TZ=", "CRON_TZ=")
_DESCRIPTORS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_EVERY = "@every "
# What Go takes for white space; Python's `split` knows four more.
_BLANKS = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_FIELD = re.compile(f"[^{_BLANKS}]+")
_NUMBER = re.compile(r"[+-]?[0-9]+")
# Go's integers, and its durations in nanoseconds, go from minus this to just below it; it has 19 digits.
_END, _DIGITS = 2**63, 19

# One part of a duration: a number, its fraction, a unit.
_TERM = re.compile(r"([0-9]*)(\.[0-9]*)?([^0-9.]*)")
_SECOND = 10**9
_UNITS = {
    "ns": 1, "us": 10**3, "\u00b5s": 10**3, "\u03bcs": 10**3, "ms": 10**6,
    "s": _SECOND, "m": 60 * _SECOND, "h": 3600 * _SECOND,
}  # fmt: skip


class _SyntaxError(Exception):
    """The text is no schedule; the message says why."""


class _Field(NamedTuple):
    """Which numbers a field may name, and the names some of them have."""

    low: int
    high: int
    names: Mapping[str, int] = {}


def _numbered(names: str, first: int) -> dict[str, int]:
    return {name: number for number, name in enumerate(names.split(), first)}


_FIELDS = (
    _Field(0, 59),
    _Field(0, 23),
    _Field(1, 31),
    _Field(1, 12, _numbered("jan feb mar apr may jun jul aug sep oct nov dec", 1)),
    _Field(0, 6, _numbered("sun mon tue wed thu fri sat", 0)),
)


def schedule_fault(text: str) -> str:
    """Return what is wrong with a schedule, `""` when nothing is."""
    try:
        _check(text)
    except _SyntaxError as error:
        return str(error)
    return ""


def _check(text: str) -> None:
    if not text:
        raise _SyntaxError("empty spec string")
    if text.startswith(_ZONE_PREFIXES):
        text = _without_zone(text)
    if text.startswith("@"):
        _check_descriptor(text)
        return
    fields = _FIELD.findall(text)
    if len(fields) != len(_FIELDS):
        raise _SyntaxError(f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]")
    for given, field in zip(fields, _FIELDS, strict=True):
        for item in given.split(","):
            if item:
                _check_item(item, field)


def _without_zone(text: str) -> str:
    name, blank, rest = text.partition("=")[2].partition(" ")
    if not blank:
        raise _SyntaxError("invalid schedule format: runtime error: slice bounds out of range [:-1]")
    if name and not is_zone(name):
        raise _SyntaxError(f"provided bad location {name}: unknown time zone {name}")
    return rest.strip(_BLANKS)


def _check_descriptor(text: str) -> None:
    if text.startswith(_EVERY):
        fault = _duration_fault(text.removeprefix(_EVERY))
        if fault:
            raise _SyntaxError(f"failed to parse duration {text}: {fault}")
    elif text not in _DESCRIPTORS:
        raise _SyntaxError(f"unrecognized descriptor: {text}")


def _check_item(item: str, field: _Field) -> None:
    """Check one range with its step. Which fault is told follows from the order in which upstream reads."""
    bounds, *steps = item.split("/")
    low, high = _bounds(item, bounds.split("-"), field)
    if len(steps) > 1:
        raise _SyntaxError(f"too many slashes: {item}")
    step = _number(steps[0]) if steps else 1
    if steps and "-" not in bounds:
        high = field.high
    if low < field.low:
        raise _SyntaxError(f"beginning of range ({low}) below minimum ({field.low}): {item}")
    if high > field.high:
        raise _SyntaxError(f"end of range ({high}) above maximum ({field.high}): {item}")
    if low > high:
        raise _SyntaxError(f"beginning of range ({low}) beyond end of range ({high}): {item}")
    if step == 0:
        raise _SyntaxError(f"step of range should be a positive number: {item}")


def _bounds(item: str, ends: list[str], field: _Field) -> tuple[int, int]:
    # After a star upstream reads no further.
    if ends[0] in ("*", "?"):
        return field.low, field.high
    low = _named(ends[0], field)
    if len(ends) == 1:
        return low, low
    if len(ends) > 2:
        raise _SyntaxError(f"too many hyphens: {item}")
    return low, _named(ends[1], field)


def _named(text: str, field: _Field) -> int:
    number = field.names.get(text.lower())
    return _number(text) if number is None else number


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise _SyntaxError(f"failed to parse int from {text}: strconv.Atoi: parsing {_quoted(text)}: invalid syntax")
    number = _bounded(text)
    if number is None:
        words = f"strconv.Atoi: parsing {_quoted(text)}: value out of range"
        raise _SyntaxError(f"failed to parse int from {text}: {words}")
    if number < 0:
        raise _SyntaxError(f"negative number ({number}) not allowed: {text}")
    return number


def _bounded(text: str) -> int | None:
    """Return a number that 64 bits can hold; Python would not even read one of thousands of digits."""
    digits = text.lstrip("+-0")
    if len(digits) > _DIGITS:
        return None
    number = -int(digits or "0") if text.startswith("-") else int(digits or "0")
    return number if -_END <= number < _END else None


def _quoted(text: str) -> str:
    """Return a text as Go quotes it."""
    shown = (
        one if one.isprintable() else f"\\x{ord(one):02x}" if one.isascii() else f"\\u{ord(one):04x}"
        for one in _escaped(text)
    )
    return f'"{"".join(shown)}"'


def _quoted_bytes(text: str) -> str:
    """Return a text as Go quotes it in durations, where only ASCII is shown as such."""
    shown = (
        one if one.isascii() and one >= " " else "".join(f"\\x{byte:02x}" for byte in one.encode(errors="replace"))
        for one in _escaped(text)
    )
    return f'"{"".join(shown)}"'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _duration_fault(text: str) -> str:
    """Return what is wrong with a duration, `""` when nothing is."""
    negative = text.startswith("-")
    rest = text[1:] if text.startswith(("+", "-")) else text
    if rest == "0":
        return ""
    invalid, total = f"time: invalid duration {_quoted_bytes(text)}", 0
    if not rest:
        return invalid
    while rest:
        # Every part of the expression may be empty: it always matches.
        term = _TERM.match(rest)
        assert term is not None
        whole, fraction, unit = term[1], (term[2] or "").removeprefix("."), term[3]
        if not whole and not fraction:
            return invalid
        if not unit:
            return f"time: missing unit in duration {_quoted_bytes(text)}"
        if unit not in _UNITS:
            return f"time: unknown unit {_quoted_bytes(unit)} in duration {_quoted_bytes(text)}"
        total += _nanoseconds(whole, fraction, unit)
        if total > _END:
            return invalid
        rest = rest[term.end() :]
    # The most negative duration has no positive counterpart.
    return invalid if total == _END and not negative else ""


def _nanoseconds(whole: str, fraction: str, unit: str) -> int:
    """Return an amount, anything beyond the range of durations when it is that large."""
    whole = whole.lstrip("0")
    if len(whole) > _DIGITS:
        return _END + 1
    # More digits than these make no difference to a number of nanoseconds.
    digits = fraction[:_DIGITS]
    part: int = int(digits or "0") * _UNITS[unit] // 10 ** len(digits)
    return int(whole or "0") * _UNITS[unit] + part
