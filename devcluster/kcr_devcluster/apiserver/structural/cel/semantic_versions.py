"""Semantic versions in expressions: `semver()`, `isSemver()`, their comparison and their parts.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/cel/library/semverlib.go; semver.org, version 2.0.0.
"""

import re
from typing import NamedTuple

_NUMBER = r"0|[1-9]\d*"
_IDENTIFIER = rf"(?:{_NUMBER}|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_VERSION = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)
_LARGEST = 2**64


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
    if found is None or any(int(number) >= _LARGEST for number in found.group(1, 2, 3)):
        raise ValueError(f'"{text}" is no semantic version')
    identifiers = (found[4] or "").split(".") if found[4] else ()
    keys = tuple((not one.isdecimal(), int(one) if one.isdecimal() else 0, one) for one in identifiers)
    return SemanticVersion((int(found[1]), int(found[2]), int(found[3])), not keys, keys)


def _normalized(text: str) -> str:
    parts = [re.sub(r"^0+(?=\d)", "", part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and not parts[-1].isdecimal():
        raise ValueError("short version cannot contain PreRelease/Build meta data")
    return ".".join([*parts, "0", "0"][:3])
