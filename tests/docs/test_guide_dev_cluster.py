"""The guide on the cluster of `kcr dev`: the test in it passes, as a reader would paste it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.documents import ROOT, blocks, files

GUIDE = ROOT / "docs" / "guide" / "dev-cluster.md"


def test_every_program_of_the_guide_is_run() -> None:
    assert [block.file for block in blocks(GUIDE) if block.language == "python"] == list(files(GUIDE))


@pytest.mark.timeout(120)
def test_silent_node_of_the_guide_does_what_it_says(tmp_path: Path) -> None:
    for name, text in files(GUIDE).items():
        (tmp_path / name).write_text(text)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nfilterwarnings = error\nasyncio_default_fixture_loop_scope = function\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert re.search(r"^1 passed", done.stdout, re.MULTILINE), done.stdout + done.stderr
