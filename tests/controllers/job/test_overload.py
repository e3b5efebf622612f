"""An API server that refuses everything, or half of it, while Jobs are created all the time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from kcr.errors import ServerError, error_for
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.busy_server import BusyServer, in_seconds
from tests.kit.harness import create, job_controller, manifest

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.timeout(60), pytest.mark.soak]

# Seven writes for each Job, two of them events, and a read.
JOBS_PER_SECOND, REQUESTS_PER_SECOND = 5, 40


@asynccontextmanager
async def busy_jobs(cluster: EmbeddedCluster, clock: VirtualClock) -> AsyncIterator[BusyServer]:
    """Create Jobs all the time, which run for two seconds, and begin when the load is as it stays."""
    server = BusyServer(cluster.transport)

    async def create_jobs() -> None:
        number = 0
        while True:
            await create(cluster.client, manifest(f"job-{number}", annotations={"sim.kcr.dev/run-for": "2s"}))
            await asyncio.sleep(1 / JOBS_PER_SECOND)
            number += 1

    async with job_controller(cluster, clock, transport=server), asyncio.TaskGroup() as group:
        creating = group.create_task(create_jobs())
        await clock.advance(10)
        yield server
        creating.cancel()


@pytest.mark.parametrize("retry_after", [0, pytest.param(1, marks=pytest.mark.soak)])
async def test_requests_nearly_stop_while_everything_is_refused(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, retry_after: int
) -> None:
    away = ServerError(503, "ServiceUnavailable", "no", retry_after_seconds=retry_after)
    with capture_logs() as logs:
        async with busy_jobs(kcr_cluster, kcr_clock) as server:
            server.refuse = lambda _: away
            await kcr_clock.advance(15)
            server.refuse = lambda _: None
            await kcr_clock.advance(10)
    normal = in_seconds(server.sent, 5, 10)
    assert normal >= REQUESTS_PER_SECOND
    # From the third second on, and on the average: it is one request in 1 to 1.5 s.
    assert in_seconds(server.sent, 12, 25) <= 0.05 * normal
    # What was left undone is made up for in the first seconds; then all is as before.
    assert in_seconds(server.done, 25, 30) >= 2 * normal
    assert in_seconds(server.done, 30, 35) == pytest.approx(normal, rel=0.2)
    assert len([line for line in logs if line["log_level"] in ("warning", "error")]) < 5


async def test_half_that_is_rejected_does_not_hold_up_the_rest(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    busy = error_for(429, "TooManyRequests", "too many requests", retry_after_seconds=1)
    async with busy_jobs(kcr_cluster, kcr_clock) as server:
        server.refuse = lambda _: busy if server.sent.total() % 2 else None
        await kcr_clock.advance(15)
    # The workers do not sleep: otherwise five of them would send five requests a second.
    assert in_seconds(server.done, 12, 25) >= 0.9 * REQUESTS_PER_SECOND / 2
