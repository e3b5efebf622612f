"""The README's first controller and its test, as a reader would paste them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.documents import ROOT, blocks


@pytest.mark.timeout(60)
def test_first_controller_passes_its_own_test(tmp_path: Path) -> None:
    controller, test, *_ = [block.text for block in blocks(ROOT / "README.md") if block.language == "python"]
    (tmp_path / "greeter.py").write_text(controller)
    (tmp_path / "test_greeter.py").write_text(test)
    # With the settings of a checkout, and without pytest-timeout: the test kit's extra does not bring it.
    settings = ["-c", str(ROOT / "pyproject.toml"), "-p", "no:timeout"]
    command = [sys.executable, "-m", "pytest", "-q", "-rP", *settings, "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert "namespace greeted (name=default)" in done.stdout
