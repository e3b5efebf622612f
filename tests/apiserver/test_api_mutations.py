"""Whatever is sent: an answer comes at once, and a fault of the server is one of the real server's as well."""

import pytest

from tests.kit.environment import setting
from tests.kit.invalid_requests import wrongs_of

SEEDS = int(setting("KCR_SEEDS", "10000"))
QUICK, STEP = 500, 125
PARTS = 8


@pytest.mark.timeout(60)
@pytest.mark.parametrize("first", range(0, QUICK, STEP))
def test_server_survives_some_mutated_requests(first: int) -> None:
    assert wrongs_of(first, STEP) == []


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_server_survives_all_mutated_requests(part: int) -> None:
    share = -(-SEEDS // PARTS)
    assert wrongs_of(QUICK + part * share, share) == []
