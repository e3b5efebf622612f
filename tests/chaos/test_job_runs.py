"""Whatever goes wrong and whenever: each pod is counted once, none is too many, and the Job ends when its pods do.

The laws are in tests/chaos/laws. Seeds are drawn by tests/chaos/job_runs.py, which also runs them by itself.
"""

import pytest

from tests.chaos.job_runs import wrongs_of
from tests.kit.environment import setting

SEEDS = int(setting("KCR_SEEDS", "2000"))
QUICK, STEP = 6, 6
PARTS = 16


@pytest.mark.timeout(60)
@pytest.mark.parametrize("first", range(0, QUICK, STEP))
def test_job_survives_network_faults_edits_and_crashes(first: int) -> None:
    for seed in range(first, first + STEP):
        assert wrongs_of(seed) == [], f"seed {seed}"


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(PARTS))
def test_job_survives_faults_edits_and_crashes_of_all_seeds(part: int) -> None:
    for seed in range(QUICK + part, QUICK + SEEDS, PARTS):
        assert wrongs_of(seed) == [], f"seed {seed}"
