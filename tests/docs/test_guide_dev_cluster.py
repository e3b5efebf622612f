"""The guide on the cluster of `kcr dev`: the test in it passes, as a reader would paste it."""

import re
from pathlib import Path

import pytest

from tests.kit.documents import ROOT, blocks, files, run_tests_of

GUIDE = ROOT / "docs" / "guide" / "dev-cluster.md"


def test_every_program_of_the_guide_is_run() -> None:
    assert [block.file for block in blocks(GUIDE) if block.language == "python"] == list(files(GUIDE))


@pytest.mark.timeout(120)
def test_silent_node_of_the_guide_does_what_it_says(tmp_path: Path) -> None:
    said = run_tests_of(files(GUIDE), tmp_path)
    assert re.search(r"^1 passed", said, re.MULTILINE), said
