import pytest

from tests.chaos.shard_kills import wrongs_of
from tests.kit.environment import setting

SEEDS = int(setting("KCR_SEEDS", "2000"))
QUICK, PARTS = 2, 8


@pytest.mark.timeout(60)
def test_shards_do_not_wait_for_a_replica_that_is_killed_again_and_again() -> None:
    for seed in range(QUICK):
        assert wrongs_of(seed) == [], f"seed {seed}"


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(PARTS))
def test_shards_do_not_wait_for_others_with_all_seeds(part: int) -> None:
    for seed in range(QUICK + part, QUICK + SEEDS, PARTS):
        assert wrongs_of(seed) == [], f"seed {seed}"
