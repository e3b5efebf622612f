"""The guide from nothing to a proven operator: its finding, word for word, and its tests as a reader runs them."""

import re
from pathlib import Path
from typing import get_args

import pytest

from kcr_devcluster.testing.explore.options import Oracle
from kcr_devcluster.testing.explore.plans import EVENT_FAULTS, JITTER, WRITE_FAULTS
from tests.kit.documents import ROOT, blocks, files, run_tests_of

GUIDE = ROOT / "docs" / "guide" / "prove.md"
FILES = files(GUIDE)


@pytest.mark.timeout(120)
def test_operator_of_the_guide_is_found_out_and_its_correction_is_proven(tmp_path: Path) -> None:
    said = _without_drawn_names(run_tests_of(FILES, tmp_path))
    assert "1 failed, 2 passed" in said
    (told,) = (block.text for block in blocks(GUIDE) if not block.file)
    for line in _without_drawn_names(told).splitlines():
        assert line in said


def _without_drawn_names(text: str) -> str:
    return re.sub(r"nightly-\w{5}\b", "nightly-…", text)


def test_tables_of_the_guide_have_all_faults_and_oracles() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    names = [*WRITE_FAULTS, *EVENT_FAULTS, "hand-over", "namespace", *get_args(Oracle)]
    assert [name for name in names if f"`{name}`" not in text] == []
    assert f"`{JITTER}@" in text
