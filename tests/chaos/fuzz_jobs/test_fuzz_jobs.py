"""Whatever a kubelet, a user and policies do to a Job, and whenever its controller dies: the laws of tests/chaos hold.

`make fuzz-jobs SEED=n` tells the scenario of a seed step by step.
"""

import pytest

from tests.chaos.fuzz_jobs.scenarios import scenario_of
from tests.chaos.fuzz_jobs.stories import wrongs_of
from tests.kit.environment import setting

SEEDS = int(setting("KCR_FUZZ_SEEDS", "2000"))
QUICK, STEP = 8, 8
PARTS = 16


@pytest.mark.timeout(60)
@pytest.mark.parametrize("first", range(0, QUICK, STEP))
def test_job_keeps_the_laws_in_every_scenario(first: int) -> None:
    for seed in range(first, first + STEP):
        assert wrongs_of(seed) == [], f"make fuzz-jobs SEED={seed}"


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(PARTS))
def test_job_keeps_the_laws_in_all_scenarios(part: int) -> None:
    broken = {seed: wrongs for seed in range(QUICK + part, QUICK + SEEDS, PARTS) if (wrongs := wrongs_of(seed))}
    assert broken == {}, "make fuzz-jobs SEED=n tells one of them"


def test_scenario_of_a_seed_is_always_the_same() -> None:
    assert scenario_of(7) == scenario_of(7)
    assert scenario_of(7) != scenario_of(8)
