"""The table of the guide: which controllers run by which list."""

import re
from pathlib import Path

import pytest

from kcr.app.options import DEFAULT_CONTROLLERS
from kcr.app.plugins import choose_plugins
from kcr_devcluster.dev.options import CONTROLLERS

GUIDE = Path(__file__).parents[2] / "docs/guide/install.md"


def rows() -> list[list[str]]:
    section = GUIDE.read_text(encoding="utf-8").partition("## Choice of controllers\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_table_has_rows() -> None:
    assert len(rows()) >= 6


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_row_says_which_controllers_run(row: list[str]) -> None:
    given, *expected = row
    named = re.match("`([^`]*)`", given)
    entries, none = tuple(named[1].split(",")) if named else ("*",), "`--no-controllers`" in given
    chosen = [
        choose_plugins(entries, CONTROLLERS, none_of_kcr=none),
        choose_plugins(entries, DEFAULT_CONTROLLERS, none_of_kcr=none),
        () if none else choose_plugins(entries, DEFAULT_CONTROLLERS, adds_own=False),
    ]
    assert [f"`{','.join(names)}`" if names else "" for names in chosen] == expected
