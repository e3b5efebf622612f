import asyncio

import pytest
from structlog.testing import capture_logs

from kcr.client import RateLimit
from kcr.testing import VirtualClock

pytestmark = pytest.mark.kcr_virtual


async def test_requests_beyond_the_burst_wait_in_order(kcr_clock: VirtualClock) -> None:
    # CL-2.
    waits: list[tuple[str, float]] = []
    limit = RateLimit(5, 2, on_wait=lambda method, seconds: waits.append((method, round(seconds, 3))))
    with capture_logs() as lines:
        async with asyncio.TaskGroup() as group:
            for method in ("GET", "POST", "PUT", "PATCH"):
                group.create_task(limit.wait(method))
    assert waits == [("GET", 0.0), ("POST", 0.0), ("PUT", 0.2), ("PATCH", 0.4)]
    assert [line["seconds"] for line in lines] == [0.2, 0.4]


async def test_limit_that_lets_no_request_pass_is_refused() -> None:
    with pytest.raises(ValueError, match="RateLimit: qps is 0: give it a number above 0"):
        RateLimit(0, 1)
