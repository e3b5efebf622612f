"""Semantic versions: `semver`, `isSemver`, their comparison and their parts.

Source: k8s.io/apiserver/pkg/cel/library/semverlib.go; github.com/blang/semver/v4, semver.go; semver.org, version 2.0.0.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from kcr.api.durations import parse_int
from kcr_devcluster.apiserver.cel.libraries.overloads import Functions, Overload
from kcr_devcluster.apiserver.cel.values import EvaluationError
from kcr_devcluster.apiserver.protocol.gotexts import quoted

_KIND = "kubernetes.Semver"
_DIGITS, _IDENTIFIER = re.compile("[0-9]*"), re.compile("[0-9A-Za-z-]*")
# Numbers are unsigned, of 64 bits; expressions see them signed.
_BITS, _SIGN = 65, 1 << 63


class Semver(NamedTuple):
    """A version, which compares as semver.org says; build metadata do not count.

    Attributes:
        numbers: Major, minor and patch.
        is_release: False for a pre-release, which comes before its release.
        identifiers: Of a pre-release; numbers come before texts.
    """

    numbers: tuple[int, int, int]
    is_release: bool
    identifiers: tuple[tuple[bool, int, str], ...]

    @property
    def cel_type(self) -> str:
        """The name of the type."""
        return _KIND


def parse(text: str, normalize: bool = False) -> Semver:
    """Return the version that a text stands for.

    Args:
        text: Such as `1.2.3-rc.1`.
        normalize: Whether a prefix `v`, leading zeros and absent minor and patch numbers are allowed.

    Raises:
        EvaluationError: The text is no semantic version.
    """
    if normalize:
        text = _normalized(text)
    if not text:
        raise EvaluationError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) < 3:
        raise EvaluationError("No Major.Minor.Patch elements found")
    major, minor = _number(parts[0], "major"), _number(parts[1], "minor")
    rest, plus, build = parts[2].partition("+")
    patch, dash, identifiers = rest.partition("-")
    numbers = (major, minor, _number(patch, "patch"))
    keys = tuple(map(_identifier, identifiers.split("."))) if dash else ()
    for one in build.split(".") if plus else ():
        if not one:
            raise EvaluationError("Build meta data is empty")
        _checked(one, _IDENTIFIER, "build meta data")
    return Semver(numbers, not keys, keys)


def _checked(text: str, pattern: re.Pattern[str], what: str) -> None:
    if not pattern.fullmatch(text):
        raise EvaluationError(f"Invalid character(s) found in {what} {quoted(text)}")


def _number(text: str, name: str) -> int:
    _checked(text, _DIGITS, f"{name} number")
    if len(text) > 1 and text.startswith("0"):
        raise EvaluationError(f"{name.capitalize()} number must not contain leading zeroes {quoted(text)}")
    return _unsigned(text)


def _unsigned(text: str) -> int:
    if (number := parse_int(text, _BITS)) is None:
        why = "value out of range" if text else "invalid syntax"
        raise EvaluationError(f"strconv.ParseUint: parsing {quoted(text)}: {why}")
    return number


def _identifier(text: str) -> tuple[bool, int, str]:
    if not text:
        raise EvaluationError("Prerelease is empty")
    if not _DIGITS.fullmatch(text):
        _checked(text, _IDENTIFIER, "prerelease")
        return True, 0, text
    if len(text) > 1 and text.startswith("0"):
        raise EvaluationError(f"Numeric PreRelease version must not contain leading zeroes {quoted(text)}")
    return False, _unsigned(text), ""


def _normalized(text: str) -> str:
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and re.search("[+-]", parts[-1]):
        raise EvaluationError("short version cannot contain PreRelease/Build meta data")
    return ".".join([*parts, "0", "0"][:3])


def _without_zeros(part: str) -> str:
    if len(part.encode()) < 2:
        return part
    rest = part.lstrip("0")
    return rest if re.match("[0-9]", rest) else f"0{rest}"


def _compare(one: Semver, other: Semver) -> int:
    return (one > other) - (one < other)


def _is_version(text: str, normalize: bool = False) -> bool:
    try:
        parse(text, normalize)
    except EvaluationError:
        return False
    return True


def _compared(name: str, returns: str, answer: Callable[[int], Any]) -> tuple[Overload, ...]:
    return (Overload(f"semver_{name}", returns, (_KIND, _KIND), lambda one, other: answer(_compare(one, other))),)


def _part(name: str, place: int) -> tuple[Overload, ...]:
    def call(version: Semver) -> int:
        return (version.numbers[place] + _SIGN) % (2 * _SIGN) - _SIGN

    return (Overload(f"semver_{name}", "int", (_KIND,), call),)


FUNCTIONS: Functions = {
    "semver": (
        Overload("string_to_semver", _KIND, ("string",), parse, False),
        Overload("string_bool_to_semver", _KIND, ("string", "bool"), parse, False),
    ),
    "isSemver": (
        Overload("is_semver_string", "bool", ("string",), _is_version, False),
        Overload("is_semver_string_bool", "bool", ("string", "bool"), _is_version, False),
    ),
    "isLessThan": _compared("is_less_than", "bool", lambda order: order < 0),
    "isGreaterThan": _compared("is_greater_than", "bool", lambda order: order > 0),
    "compareTo": _compared("compare_to", "int", lambda order: order),
    **{name: _part(name, place) for place, name in enumerate(("major", "minor", "patch"))},
}
