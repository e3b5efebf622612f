"""Every scenario of job-controller §§37 and 40 is cited by a test."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[3]
FOLDERS = (
    "controllers/job",
    "controllers/ttl",
    "chaos",
    "docs/examples",
    "unit/controllers/job",
)
ROWS = range(1, 155)

# `Rows 1 to 3`, `rows 16, 17 and 20`; those of the examples' own list are others.
CITATION = re.compile(r"(?<!xamples )\b[Rr]ows? (\d+(?:(?: to |, | and |, and )\d+)*)")


def cited(text: str) -> set[int]:
    """Return the rows that a test's comments name."""
    rows: set[int] = set()
    for numbers in CITATION.findall(text):
        for part in re.split(r", and |, | and ", numbers):
            first, _, last = part.partition(" to ")
            rows.update(range(int(first), int(last or first) + 1))
    return rows


def test_citations_are_read_as_they_are_written() -> None:
    text = "# Rows 1 to 3, 5 and 9.\n# Examples row 7; job-controller row 8, §17."
    assert cited(text) == {1, 2, 3, 5, 9, 8}


def test_every_scenario_is_cited_by_a_test() -> None:
    files = [path for folder in FOLDERS for path in (TESTS / folder).rglob("test_*.py") if path != Path(__file__)]
    found = set().union(*(cited(path.read_text()) for path in files))
    assert sorted(set(ROWS) - found) == []
    assert sorted(found - set(ROWS)) == []
