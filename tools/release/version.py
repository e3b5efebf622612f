"""The version of kcr, wherever it is written: `python -m tools.release.version X.Y.Z` sets it everywhere.

It begins the version's section in CHANGELOG.md with what was unreleased, and writes down the public API. Commit the
result, and run `make release` on that commit.
"""

import re
import sys
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from kcr.clock import SystemClock
from tools.public_api import RELEASED, current_pages, lines_of, written

ROOT = Path(__file__).parents[2]
FORM = re.compile(r"\d+\.\d+\.\d+(?:rc\d+)?")
# Each pattern matches the text around the version, in a file of the repository; all its matches are written.
PLACES: Mapping[str, tuple[str, ...]] = {
    "pyproject.toml": (r'^version = "()"', r'"kcr-devcluster==()"'),
    "devcluster/pyproject.toml": (r'^version = "()"', r'"kcr==()"'),
    "Dockerfile": (r"^ARG VERSION=()$",),
    "charts/kcr/Chart.yaml": (r"^version: ()$", r"^appVersion: ()$"),
    "charts/install.yaml": (r'app\.kubernetes\.io/version: "()"', r'image: "kcr:()"'),
    "docs/guide/install.md": (r"registry\.example/kcr:()$",),
}
UNRELEASED = "## Unreleased\n"


def found_versions(root: Path) -> dict[str, set[str]]:
    """Return the versions that each file of a checkout has; a file in which a pattern matches nothing has `""`."""
    return {
        name: {version for pattern in patterns for version in _all(pattern, (root / name).read_text()) or [""]}
        for name, patterns in PLACES.items()
    }


def set_version(root: Path, version: str, today: date) -> None:
    """Write a version everywhere in a checkout, and begin its section in the changelog.

    Args:
        root: The checkout.
        version: The version.
        today: The date of the release.

    Raises:
        ValueError: The version has another form or was released, or the changelog has nothing unreleased.
    """
    if not FORM.fullmatch(version):
        raise ValueError(f"{version!r} is no version: write it as 0.2.0 or 0.2.0rc1")
    changelog = root / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8")
    if section(text, version):
        raise ValueError(f"CHANGELOG.md has a section of {version} already: choose the next version")
    if not section(text, "Unreleased"):
        raise ValueError("CHANGELOG.md: there is nothing under Unreleased: a release needs notes")
    changelog.write_text(text.replace(UNRELEASED, f"{UNRELEASED}\n## {version} - {today}\n", 1), encoding="utf-8")
    for name, patterns in PLACES.items():
        path = root / name
        text = path.read_text(encoding="utf-8")
        for pattern in patterns:
            text = re.sub(_around(pattern), lambda match: match[1] + version + match[3], text, flags=re.MULTILINE)
        path.write_text(text, encoding="utf-8")


def section(changelog: str, version: str) -> str:
    """Return what the changelog says of a version, without its heading; empty for nothing."""
    found = re.search(rf"^## {re.escape(version)}(?: - [^\n]*)?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def _around(pattern: str) -> str:
    before, after = pattern.split("()")
    return rf"({before})([\w.]+)({after})"


def _all(pattern: str, text: str) -> list[str]:
    return [match[2] for match in re.finditer(_around(pattern), text, re.MULTILINE)]


def main() -> None:
    """Set the version that the command line names."""
    try:
        (version,) = sys.argv[1:]
        set_version(ROOT, version, SystemClock().now().date())
    except ValueError as error:
        sys.exit(f"version: {error}")
    RELEASED.write_text(written(version, lines_of(current_pages())), encoding="utf-8")


if __name__ == "__main__":
    main()
