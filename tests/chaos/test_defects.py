"""The laws find what they are there for: each defect in tests/chaos/job_defects.py breaks one within 1,000 seeds.

Nearly all do within 200, and which are the rare ones changes with every change of the requests that a pass makes.

Run by `make soak`, or by itself: `.venv/bin/pytest -n auto -m soak tests/chaos/test_defects.py`, one of them
with `-k NAME`. A defect that can no longer be planted fails as well, and says what it has to follow.
"""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.job_defects import DEFECTS
from tests.chaos.planting import Defect, Edit

ROOT = Path(__file__).parents[2]
SEEDS = 1000


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("defect", [pytest.param(defect, id=defect.name) for defect in DEFECTS])
def test_defect_breaks_a_law(defect: Defect, tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__")
    for package in ("kcr", "controllers", "devcluster", "tests"):
        shutil.copytree(ROOT / package, tmp_path / package, symlinks=True, ignore=ignored)
    defect.plant(tmp_path)
    hunt = [sys.executable, "-m", "tests.chaos.job_runs", "0", str(SEEDS)]
    found = subprocess.run(hunt, cwd=tmp_path, capture_output=True, text=True, check=False)
    print(found.stdout, found.stderr)
    assert found.stdout.startswith("seed "), f"{defect.name} was not found in {SEEDS} seeds"


@pytest.mark.parametrize("defect", [pytest.param(defect, id=defect.name) for defect in DEFECTS])
def test_every_defect_can_be_planted(defect: Defect) -> None:
    for path, text in defect.changed(ROOT).items():
        assert text != ast.unparse(ast.parse(path.read_text()))
        compile(text, path, "exec")


def test_defect_that_finds_no_place_says_what_has_to_follow() -> None:
    with pytest.raises(LookupError, match="gone: 'A < B' was found 0 times in functions called 'restarts_exceeded'"):
        Defect("gone", (Edit("restarts_exceeded", "A < B"),)).changed(ROOT)
