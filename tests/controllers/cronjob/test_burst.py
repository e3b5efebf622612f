"""Many CronJobs due in the same minute: what is due comes first, the books later."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random

import pytest

from kcr.client import Request, Response
from kcr.cluster import EmbeddedCluster
from kcr.testing import VirtualClock
from kcr.testing.faults import call_of
from tests.kit.cronjob_harness import CREATED, at, create, cron_controller, manifest, until

pytestmark = pytest.mark.virtual

COUNT = 50


class Writes:
    """A transport that notes what is written, and to which kind."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._inner = cluster.transport
        self.seen: list[str] = []

    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        return self._send(request)

    @asynccontextmanager
    async def _send(self, request: Request) -> AsyncIterator[Response]:
        if request.method != "GET":
            self.seen.append(f"{request.method} {call_of(request).resource[2]}")
        async with self._inner.send(request) as response:
            yield response


async def test_all_that_are_due_are_started_before_the_first_record(clock: VirtualClock) -> None:
    watch = VirtualClock(CREATED)
    async with EmbeddedCluster(clock=watch, random=Random(0), runtime=None) as cluster:
        for number in range(COUNT):
            await create(cluster.client, manifest(f"c{number}"))
        transport = Writes(cluster)
        async with cron_controller(cluster, watch, transport=transport):
            await until(watch, at("10:00:30"))
            written = [line for line in transport.seen if not line.endswith("events")]
    # And each of them takes two writes, its event apart.
    assert written == ["POST jobs"] * COUNT + ["PATCH cronjobs"] * COUNT
