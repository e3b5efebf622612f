"""A public name that is gone or has another signature has an entry in the changelog."""

import re
import subprocess

import pytest

from tests.kit.documents import ROOT
from tools.public_api import RELEASED, current_pages, lines_of, pages_of, unexplained

HEAD, *LINES = RELEASED.read_text(encoding="utf-8").splitlines()
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
# The releases, newest first, each with its text. What comes before the first of them is not released.
UNRELEASED, VERSION, _ = re.split(r"^## (\d+\.\d+\.\d+) - .*\n", CHANGELOG, maxsplit=1, flags=re.MULTILINE)
FIRST = "d350c22f6f8af93d2190662841172369ec33a6d2"


def test_written_api_is_that_of_the_newest_release() -> None:
    assert HEAD.startswith(f"# Public API of kcr {VERSION}. "), f"run `python -m tools.public_api {VERSION}`"
    assert len(LINES) > 600


def test_incompatible_change_has_an_entry() -> None:
    missing = unexplained(LINES, lines_of(current_pages()), UNRELEASED)
    assert not missing, "each needs an entry under Changed or Removed in CHANGELOG.md that names it as `code`"


@pytest.mark.skipif(VERSION != "0.1.0", reason="the written API is of a newer release")
def test_written_api_is_that_of_the_commit() -> None:
    try:
        pages = pages_of(FIRST)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("without the history of the repository: 0.1.0 is the commit d350c22")
    assert lines_of(pages) == LINES
