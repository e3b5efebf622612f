import pytest

from tests.chaos.shard_runs import wrongs_of
from tests.kit.environment import setting

SEEDS = int(setting("KCR_SEEDS", "2000"))
QUICK, PARTS = 1, 8


@pytest.mark.timeout(60)
def test_laws_hold_whoever_holds_the_shards() -> None:
    for seed in range(QUICK):
        assert wrongs_of(seed) == [], f"seed {seed}"


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(PARTS))
def test_laws_hold_whoever_holds_the_shards_with_all_seeds(part: int) -> None:
    for seed in range(QUICK + part, QUICK + SEEDS, PARTS):
        assert wrongs_of(seed) == [], f"seed {seed}"
