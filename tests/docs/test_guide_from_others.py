"""The guides for those who come from controller-runtime and kopf: their programs run, as a reader would paste them."""

import re
from pathlib import Path

import pytest

import kcr
from tests.kit.documents import ROOT, blocks, files, run_tests_of

FROM_GO = ROOT / "docs" / "guide" / "from-controller-runtime.md"
FROM_KOPF = ROOT / "docs" / "guide" / "from-kopf.md"


def test_every_program_but_the_one_in_go_is_run() -> None:
    assert [block.language for block in blocks(FROM_GO) if not block.file] == ["go"]
    assert list(files(FROM_GO)) == ["pages.py", "test_pages.py"]
    # The commands are those of the test in tests/e2e/test_from_kopf.py.
    assert {block.language for block in blocks(FROM_KOPF) if not block.file} == {"console"}
    assert list(files(FROM_KOPF)) == ["with_kopf.py", "notes.py"]


@pytest.mark.timeout(60)
def test_controller_that_was_in_go_passes_its_test(tmp_path: Path) -> None:
    said = run_tests_of(files(FROM_GO), tmp_path)
    assert re.search(r"^1 passed", said, re.MULTILINE), said


@pytest.mark.parametrize("guide", [FROM_GO, FROM_KOPF], ids=["go", "kopf"])
def test_names_of_kcr_in_the_guides_exist(guide: Path) -> None:

    named = set(re.findall(r"\bkcr\.([A-Za-z_]\w+)", guide.read_text())) - {"testing", "api", "cluster", "dev"}
    assert len(named) > 15
    assert not [name for name in named if not hasattr(kcr, name)]
