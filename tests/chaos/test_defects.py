"""The laws find what they are there for: each defect in job_defects.py breaks one within 1,000 seeds.

Nearly all do within 200, and which are the rare ones changes with every change of the requests that a pass makes.

Likewise the laws of sharding, and those in shard_defects.py; the story of scopes, and those in scope_defects.py; the
invariants of requests, and those in requests/request_defects.py, within 60 stories; the scenarios with policies, and
those in fuzz_jobs/defects.py.

Run by `make soak`, or by itself: `.venv/bin/pytest -n auto -m soak tests/chaos/test_defects.py`, one of them
with `-k NAME`. A defect that can no longer be planted fails as well, and says what it has to follow.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.fuzz_jobs.defects import DEFECTS as POLICY_DEFECTS
from tests.chaos.job_defects import DEFECTS as JOB_DEFECTS
from tests.chaos.job_defects import TESTED as JOB_TESTED
from tests.chaos.planting import Defect, Edit, as_written
from tests.chaos.requests.request_defects import DEFECTS as REQUEST_DEFECTS
from tests.chaos.scope_defects import DEFECTS as SCOPE_DEFECTS
from tests.chaos.scope_defects import TWICE
from tests.chaos.shard_defects import DEFECTS as SHARD_DEFECTS
from tests.chaos.shard_defects import WAITS as SHARD_WAITS

ROOT = Path(__file__).parents[2]
SEEDS, STORIES = 1000, 60
TESTED = (*SCOPE_DEFECTS, *JOB_TESTED)
DEFECTS = (
    *JOB_DEFECTS,
    *POLICY_DEFECTS,
    *SHARD_DEFECTS,
    *SHARD_WAITS,
    *(defect for defect, _ in (*TESTED, *TWICE)),
    *REQUEST_DEFECTS,
)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("defect", [pytest.param(defect, id=defect.name) for defect in JOB_DEFECTS])
def test_defect_breaks_a_law(defect: Defect, tmp_path: Path) -> None:
    _hunt(defect, tmp_path, "tests.chaos.job_runs", "0", str(SEEDS))


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("defect", [pytest.param(defect, id=defect.name) for defect in POLICY_DEFECTS])
def test_defect_breaks_a_law_in_a_scenario(defect: Defect, tmp_path: Path) -> None:
    _hunt(defect, tmp_path, "tests.chaos.fuzz_jobs", "0", str(SEEDS))


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("defect", [pytest.param(defect, id=defect.name) for defect in SHARD_DEFECTS])
def test_defect_of_sharding_breaks_a_law(defect: Defect, tmp_path: Path) -> None:
    _hunt(defect, tmp_path, "tests.chaos.shard_runs", "0", str(SEEDS))


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("defect", [pytest.param(defect, id=defect.name) for defect in SHARD_WAITS])
def test_defect_leaves_shards_without_a_holder(defect: Defect, tmp_path: Path) -> None:
    _hunt(defect, tmp_path, "tests.chaos.shard_kills", "0", str(SEEDS))


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize(("defect", "scope"), [pytest.param(*one, id=one[0].name) for one in TWICE])
def test_defect_makes_a_child_twice(defect: Defect, scope: str, tmp_path: Path) -> None:
    _hunt(defect, tmp_path, "tests.chaos.scope_runs", scope, "0", str(SEEDS))


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("defect", [pytest.param(defect, id=defect.name) for defect in REQUEST_DEFECTS])
def test_defect_of_the_server_breaks_an_invariant(defect: Defect, tmp_path: Path) -> None:
    _hunt(defect, tmp_path, "tests.chaos.requests.story", "0", str(STORIES), "--whole")


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize(("defect", "tests"), [pytest.param(*one, id=one[0].name) for one in TESTED])
def test_defect_fails_a_test(defect: Defect, tests: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    found = _run(defect, tmp_path, "pytest", "-q", "-x", "-p", "no:cacheprovider", tests)
    assert "1 failed" in found.splitlines()[-1], f"{defect.name} was not found by {tests}"


def _hunt(defect: Defect, tree: Path, module: str, *seeds: str) -> None:
    """Run the seeds on a copy of the project that has a defect, and find one that shows it."""
    found = _run(defect, tree, module, *seeds)
    assert found.startswith("seed "), f"{defect.name} was not found by {module} {' '.join(seeds)}"


def _run(defect: Defect, tree: Path, module: str, *arguments: str) -> str:
    """Run a module on a copy of the project that has a defect, and return what it prints."""
    ignored = shutil.ignore_patterns("__pycache__")
    for package in ("kcr", "controllers", "devcluster", "tests"):
        shutil.copytree(ROOT / package, tree / package, symlinks=True, ignore=ignored)
    defect.plant(tree)
    command = [sys.executable, "-m", module, *arguments]
    environment = {**os.environ, "PYTHONPATH": f"{tree}{os.pathsep}{tree / 'devcluster'}"}
    found = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    print(found.stdout, found.stderr)
    return found.stdout


@pytest.mark.parametrize("defect", [pytest.param(defect, id=defect.name) for defect in DEFECTS])
def test_every_defect_can_be_planted(defect: Defect) -> None:
    for path, text in defect.changed(ROOT).items():
        assert text != as_written(path)
        compile(text, path, "exec")


def test_defect_that_finds_no_place_says_what_has_to_follow() -> None:
    with pytest.raises(LookupError, match="gone: 'A < B' was found 0 times in functions called 'restarts_exceeded'"):
        Defect("gone", (Edit("restarts_exceeded", "A < B"),)).changed(ROOT)
