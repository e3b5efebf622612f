"""The laws find what they are there for: each defect in tests/chaos/job_defects.py breaks one within 500 seeds.

Nearly all do within 200, and which are the rare ones changes with every change of the requests that a pass makes.

Run by `make soak`, or by itself: `.venv/bin/pytest -n auto -m soak tests/chaos/test_defects.py`, one of them
with `-k NAME`. A defect whose text is no longer there fails as well: it has to follow the code.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.job_defects import DEFECTS, Defect

ROOT = Path(__file__).parents[2]
SEEDS = 500


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("defect", [pytest.param(defect, id=defect.name) for defect in DEFECTS])
def test_defect_breaks_a_law(defect: Defect, tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__")
    for package in ("kcr", "controllers", "tests"):
        shutil.copytree(ROOT / package, tmp_path / package, symlinks=True, ignore=ignored)
    defect.plant(tmp_path)
    hunt = [sys.executable, "-m", "tests.chaos.job_runs", "0", str(SEEDS)]
    found = subprocess.run(hunt, cwd=tmp_path, capture_output=True, text=True, check=False)
    print(found.stdout, found.stderr)
    assert found.stdout.startswith("seed "), f"{defect.name} was not found in {SEEDS} seeds"


def test_every_defect_can_be_planted(tmp_path: Path) -> None:
    for defect in DEFECTS:
        tree = tmp_path / defect.name
        shutil.copytree(ROOT / "controllers" / "job", tree / "controllers" / "job")
        defect.plant(tree)
