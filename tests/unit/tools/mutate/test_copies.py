"""A copy of a project, in which the tests of a mutant run."""

from pathlib import Path

import pytest

from tools.mutate.copies import Copy
from tools.mutate.mutations import Mutant, mutants

CODE = b"""def small(a):
    return a < 3


def wait(a):
    while a:
        a -= 1
    return True
"""
TESTS = """import code_of_mine as code


def test_two_is_small():
    assert code.small(2)


def test_three_is_not():
    assert not code.small(3)


def test_waiting_ends():
    assert code.wait(2)
"""
IDS = ["test_mine.py::test_two_is_small", "test_mine.py::test_three_is_not"]


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    project = tmp_path / "project"
    project.mkdir()
    (project / "code_of_mine.py").write_bytes(CODE)
    (project / "test_mine.py").write_text(TESTS)
    return Copy(tmp_path / "copy", project)


def mutant(change: str) -> Mutant:
    return next(one for one in mutants("code_of_mine.py", CODE) if change in one.identity)


@pytest.mark.soak
@pytest.mark.timeout(120)
def test_mutant_is_killed_by_the_first_test_that_fails(copy: Copy, tmp_path: Path) -> None:
    boundary = mutant("`<` in a < 3 => <=")
    assert copy.test(boundary, [], 30) == ("", 0.0, 0)
    assert copy.test(boundary, IDS[:1], 30).killed_by == ""
    # The module has the same size, and is written again within the same second.
    assert copy.test(boundary, IDS, 30).killed_by == "FAILED test_mine.py::test_three_is_not"
    assert copy.test(mutant("`<` in a < 3 => >="), IDS, 30).killed_by == "FAILED test_mine.py::test_two_is_small"
    for tree in (copy.tree, tmp_path / "project"):
        assert (tree / "code_of_mine.py").read_bytes() == CODE


@pytest.mark.soak
@pytest.mark.timeout(120)
def test_test_that_is_no_longer_there_kills_nothing(copy: Copy) -> None:
    boundary, gone = mutant("`<` in a < 3 => <="), "test_mine.py::test_gone"
    assert copy.test(boundary, [gone, IDS[0]], 30)[::2] == ("", 1)


@pytest.mark.timeout(120)
def test_mutant_that_never_ends_is_killed_by_its_limit(copy: Copy) -> None:
    endless = mutant("a -= 1 => pass")
    assert copy.test(endless, ["test_mine.py::test_waiting_ends"], 1).killed_by == "nothing within 1 s"
