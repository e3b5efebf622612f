"""An API server that crashes again and again, and has forgotten old versions each time it is back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median

import pytest
from structlog.testing import capture_logs

from kcr.client import Request, Response, Transport
from kcr.errors import GoneError, TransportError
from kcr.testing import VirtualClock
from kcr.testing.fakes import made, refusal
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.harness import create, finished, job_controller, manifest

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.soak]

JOBS = 40
CRASHES, AWAY_SECONDS, UP_SECONDS = 5, 6.0, 8.0


class Flapping:
    """A transport to a server that is away at times: connections are refused, watches cut, old versions expired."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self._back = asyncio.Event()
        self._back.set()
        # The paths whose next watch from a version is answered with 410.
        self._expired: set[str] = set()
        self._cuts: set[asyncio.Timeout] = set()

    def crash(self) -> None:
        self._back.clear()
        self._expired = {"/apis/batch/v1/jobs", "/api/v1/pods"}
        for cut in self._cuts:
            cut.reschedule(asyncio.get_running_loop().time())

    def start(self) -> None:
        self._back.set()

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        if not self._back.is_set():
            raise TransportError("connection refused")
        path, _, query = request.target.partition("?")
        if path in self._expired and "watch=true" in query and "resourceVersion=" in query:
            self._expired.discard(path)
            yield refusal(made(GoneError, 0.0))
            return
        try:
            async with asyncio.timeout(None) as cut:
                self._cuts.add(cut)
                async with self.inner.send(request) as response:
                    yield response
        except TimeoutError:
            raise TransportError("connection reset by peer") from None
        finally:
            self._cuts.discard(cut)


@pytest.mark.timeout(60)
async def test_jobs_end_soon_although_the_server_crashes_five_times(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    wire = Flapping(kcr_cluster.transport)
    with capture_logs() as logs:
        async with job_controller(kcr_cluster, kcr_clock, transport=wire), asyncio.TaskGroup() as group:
            jobs = [group.create_task(life(kcr_cluster, number)) for number in range(JOBS)]
            for _ in range(CRASHES):
                await kcr_clock.advance(UP_SECONDS)
                wire.crash()
                await kcr_clock.advance(AWAY_SECONDS)
                wire.start()
    lasted = [job.result() for job in jobs]
    # Undisturbed, each takes the 5 s that its pod runs. With the backoff of each key it was a minute.
    assert median(lasted) < 15
    assert max(lasted) < 40
    assert len([line for line in logs if line["log_level"] in ("warning", "error")]) < 10


async def life(cluster: EmbeddedCluster, number: int) -> float:
    """Create a Job some time during the crashes, and return how many seconds it lasted."""
    await asyncio.sleep(number * CRASHES * (UP_SECONDS + AWAY_SECONDS) / JOBS)
    name = f"job-{number}"
    job = await create(cluster.client, manifest(name, annotations={"sim.kcr.dev/run-for": "5s"}))
    ended = (await finished(cluster.client, name)).status.completion_time
    assert ended is not None
    assert job.metadata.creation_timestamp is not None
    return (ended - job.metadata.creation_timestamp).total_seconds()
