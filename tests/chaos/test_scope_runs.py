import pytest

from tests.chaos.scope_runs import SCOPES, wrongs_of
from tests.kit.environment import setting

SEEDS = int(setting("KCR_SEEDS", "2000"))
QUICK, PARTS = 1, 4
# Replicas and shards have stories of their own.
FEWER = {"leader": 4, "shards": 4, "namespaces": 1, "clusters": 1}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("scope", SCOPES)
def test_no_child_is_made_twice_when_scopes_come_and_go(scope: str) -> None:
    for seed in range(QUICK):
        assert wrongs_of(seed, scope) == [], f"seed {seed}"


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("part", range(PARTS))
def test_no_child_is_made_twice_with_all_seeds(scope: str, part: int) -> None:
    for seed in range(QUICK + part, QUICK + SEEDS // FEWER[scope], PARTS):
        assert wrongs_of(seed, scope) == [], f"seed {seed}"
