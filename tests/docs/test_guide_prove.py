"""The guide from nothing to a proven operator: its finding, word for word, and its tests as a reader runs them."""

import re
from typing import get_args

import pytest

from kcr_devcluster.testing.explore.options import Oracle
from kcr_devcluster.testing.explore.plans import EVENT_FAULTS, JITTER, WRITE_FAULTS
from tests.kit.documents import ROOT, blocks, files, run_tests_of

GUIDE = ROOT / "docs" / "guide" / "prove.md"
FILES = files(GUIDE)


@pytest.mark.timeout(120)
def test_operator_of_the_guide_is_found_out_and_its_correction_is_proven(pytester: pytest.Pytester) -> None:
    said = _without_drawn_names(run_tests_of(FILES, pytester))
    assert "1 failed, 3 passed" in said
    told, _ = printed()
    for line in _without_drawn_names(told).splitlines():
        assert line in said


@pytest.mark.timeout(60)
def test_least_role_of_the_guide_is_the_one_that_its_tests_print(pytester: pytest.Pytester) -> None:
    said = run_tests_of(FILES, pytester, "--kcr-rights", "-k", "two_writes")
    assert "1 passed" in said
    _, role = printed()
    assert role in said
    assert "not declared" not in said


def printed() -> tuple[str, ...]:
    """What commands of the guide print."""
    return tuple(block.text for block in blocks(GUIDE) if not block.file)


def _without_drawn_names(text: str) -> str:
    return re.sub(r"nightly-\w{5}\b", "nightly-…", text)


def test_tables_of_the_guide_have_all_faults_and_oracles() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    names = [*WRITE_FAULTS, *EVENT_FAULTS, "hand-over", "namespace", *get_args(Oracle)]
    assert [name for name in names if f"`{name}`" not in text] == []
    assert f"`{JITTER}@" in text
