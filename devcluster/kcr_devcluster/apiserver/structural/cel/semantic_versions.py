"""Semantic versions in expressions: `semver()`, `isSemver()`, their comparison and their parts.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/cel/library/semverlib.go; semver.org, version 2.0.0.
"""

import re
from typing import NamedTuple

from kcr.api.integers import parse_int

_NUMBER = r"0|[1-9]\d*"
_IDENTIFIER = rf"(?:{_NUMBER}|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_VERSION = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)
# Numbers are unsigned, of 64 bits.
_BITS = 65


class SemanticVersion(NamedTuple):
    """A version, which compares as semver.org says; build metadata do not count.

    Attributes:
        numbers: Major, minor and patch.
        is_release: False for a pre-release, which comes before its release.
        identifiers: Of a pre-release; numbers come before texts.
    """

    numbers: tuple[int, int, int]
    is_release: bool
    identifiers: tuple[tuple[bool, int, str], ...]


def parse_version(text: str, normalize: bool = False) -> SemanticVersion:
    """Return the version that a text stands for.

    Args:
        text: Such as `1.2.3-rc.1`.
        normalize: Whether a prefix `v`, leading zeros and absent minor and patch numbers are allowed.

    Raises:
        ValueError: The text is no semantic version.
    """
    found = _VERSION.fullmatch(_normalized(text) if normalize else text)
    if found is None:
        raise ValueError(f'"{text}" is no semantic version')
    identifiers = (found[4] or "").split(".") if found[4] else ()
    major, minor, patch, *numbers = (
        _number(one) if one.isdecimal() else 0 for one in (*found.group(1, 2, 3), *identifiers)
    )
    keys = tuple((not one.isdecimal(), number, one) for number, one in zip(numbers, identifiers, strict=True))
    return SemanticVersion((major, minor, patch), not keys, keys)


def _number(text: str) -> int:
    number = parse_int(text, _BITS)
    if number is None:
        raise ValueError(f'"{text}" is no number of a semantic version')
    return number


def _normalized(text: str) -> str:
    parts = [re.sub(r"^0+(?=\d)", "", part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and not parts[-1].isdecimal():
        raise ValueError("short version cannot contain PreRelease/Build meta data")
    return ".".join([*parts, "0", "0"][:3])
