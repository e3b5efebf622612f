"""The reliability card: its stories, its laws, and the defects that it must find; `make card` has it for an hour."""

import os
import re
from itertools import islice
from pathlib import Path

import pytest

from tests.chaos.card import planted, rows, table
from tests.chaos.card.fence_gap import measure
from tests.chaos.card.planted import PLANTED, Planted
from tests.chaos.card.results import VIOLATIONS, Card, Result, law_of
from tests.chaos.card.running import failure, lived, run
from tests.chaos.card.scenarios import SCENARIOS
from tests.chaos.card.upstream import DEFECTS
from tests.chaos.planting import as_written
from tests.kit.environment import setting

ROOT = Path(__file__).parents[3]
MINUTES = float(setting("KCR_CARD_MINUTES", "2"))
# Defects whose first story shows them, each with the write that breaks its law. `make test` hunts one of them.
QUICK = {
    "failures-are-counted-from-zero": "patch   jobs.batch default/pi/status",
    "fatal-failures-are-overlooked": "patch   jobs.batch default/pi/status",
    "end-changes-its-reason": "patch   jobs.batch default/pi/status",
}
# A removed finalizer that is back after a restore; and one whose removal the watch has lost.
KNOWN = ("snapshot/23", "snapshot/26", "event/several-pods/pods/19/lost", "event/deadline/pods/12/lost")
# Rows of which other tests of this folder live the first story: `make soak` lives it here as well.
ELSEWHERE = ("jobs", "terms", "shards", "kills", "dependents", "names")
# Of no law: a story that never ends, or in which a controller falls over.
NO_LAW = {"stories_end"}


def first_of(row: str) -> str:
    """Return the first story of a row."""
    every = rows.ROWS[row].all
    return "/".join((row, *(("0",) if every is None else next(iter(every())))))


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "row", [pytest.param(row, marks=pytest.mark.soak if row in ELSEWHERE else ()) for row in rows.ROWS]
)
def test_first_story_of_each_row_breaks_no_law(row: str) -> None:
    result = lived(first_of(row))
    assert result.wrongs == (), failure(result)
    assert result.laws.keys() <= {law for laws in VIOLATIONS.values() for law in laws}


@pytest.mark.parametrize("story", KNOWN)
def test_story_that_broke_a_law_breaks_none_now(story: str) -> None:
    result = lived(story)
    assert result.wrongs == (), failure(result)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_card_of_two_minutes_has_no_violation(capsys: pytest.CaptureFixture[str]) -> None:
    card = run(MINUTES, workers=max(1, (os.cpu_count() or 2) - 1))
    assert not card.broken, capsys.readouterr().err
    assert card.stories > 20


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("one", [pytest.param(one, id=one.defect.name) for one in PLANTED])
def test_planted_defect_is_found_by_its_law(one: Planted) -> None:
    assert planted.find(one).story, f"{one.defect.name} was not found by {one.law}"


@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    ("name", "write"),
    [
        pytest.param(*one, id=one[0], marks=[] if one[0] == "end-changes-its-reason" else pytest.mark.soak)
        for one in QUICK.items()
    ],
)
def test_known_story_finds_its_defect_at_once_and_ends_with_the_write(name: str, write: str) -> None:
    (one,) = [one for one in PLANTED if one.defect.name == name]
    found = planted.find(one)
    assert found.story == one.stories[0]
    *_, last, wrong = found.history.splitlines()
    assert law_of(wrong.removeprefix("=> ")) == one.law
    assert write in last, found.history


@pytest.mark.parametrize("one", [pytest.param(one, id=one.defect.name) for one in PLANTED])
def test_defect_of_the_card_can_be_planted(one: Planted) -> None:
    for path, text in one.defect.changed(ROOT).items():
        assert text != as_written(path)
        compile(text, path, "exec")


def test_each_law_has_a_planted_defect() -> None:
    laws = {law for laws in VIOLATIONS.values() for law in laws}
    assert laws - NO_LAW == {one.law for one in PLANTED}
    assert len({one.defect.name for one in PLANTED}) == len(PLANTED)


def test_twenty_scenarios_are_enumerated() -> None:
    assert len(SCENARIOS) == 20
    crash = rows.ROWS["crash"].all
    assert crash is not None
    assert [*islice(crash(), 2)] == [("one-pod", "1"), ("one-pod", "2")]


def test_seeds_of_all_rows_are_drawn_in_turn() -> None:
    names = [*islice(rows.drawn(), 200)]
    assert len(set(names)) == len(names)
    seeded = {name for name, row in rows.ROWS.items() if row.all is None}
    assert {name.partition("/")[0] for name in names} == seeded


def test_broken_law_comes_with_its_command_and_its_writes() -> None:
    # A story whose seed is not a number falls over.
    result = lived("jobs/x")
    assert law_of(result.wrongs[0]) == "stories_end"
    assert "again: make card STORY=jobs/x" in failure(result)
    assert result.wrongs[0] in result.history


def test_table_counts_stories_faults_laws_and_violations() -> None:
    card = Card(2)
    card.enumerated(["crash/one-pod/1", "crash/one-pod/2"])
    good = Result("crash/one-pod/1", (), "", {"watch: cut": 3}, {"jobs_end": 1}, {"events": 7}, 0.1)
    card.add(good)
    card.add(good._replace(story="crash/one-pod/2", wrongs=("1.000 s: no_pod_is_one_too_many: two",)))
    shown = table.text(card)
    for line in (
        "| total | stories | 2 | 1 |",
        "| total | informer events compared with a model | 14 | 0 |",
        "| violation | surplus pods |  | 1 |",
        "| fault | watch: cut | 6 |  |",
        "| law | `no_pod_is_one_too_many` | 0 | 1 |",
        "| story | crash after every write of twenty scenarios (`crash`) | 2 of 2 | 1 |",
    ):
        assert line in shown.splitlines(), shown


def test_defects_of_upstream_name_tests_that_exist() -> None:
    for known in DEFECTS:
        for name, path in re.findall(r"\[`(\w+)`\]\(\.\./(tests/\S+)\)", known.here):
            assert f"def {name}(" in (ROOT / path).read_text()
        for row in re.findall(r"row `(\w+)`", known.here):
            assert row in rows.ROWS


def test_write_leaves_soon_after_the_check_of_its_lease() -> None:
    gap = measure()
    assert 0 < gap.median < 1000
    # It is given up after its timeout, and not before.
    assert 0 <= gap.over_timeout < 10
