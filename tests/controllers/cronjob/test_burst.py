"""Many CronJobs due in the same minute: what is due is started first, the statuses are written later."""

from random import Random

import pytest

from kcr.cluster import EmbeddedCluster
from kcr.testing import FaultyTransport, VirtualClock
from tests.kit.cronjob_harness import CREATED, at, create, cronjob_controller, manifest, until

pytestmark = pytest.mark.virtual

COUNT = 50


async def test_all_that_are_due_are_started_before_the_first_record(clock: VirtualClock) -> None:
    watch = VirtualClock(CREATED)
    async with EmbeddedCluster(clock=watch, random=Random(0), runtime=None) as cluster:
        for number in range(COUNT):
            await create(cluster.client, manifest(f"c{number}"))
        transport = FaultyTransport(cluster.transport)
        async with cronjob_controller(cluster, watch, transport=transport):
            await until(watch, at("10:00:30"))
            writes = [(call.verb, call.resource[2]) for call in transport.calls if call.verb in ("create", "patch")]
    # And each of them takes two writes, its event apart.
    written = [write for write in writes if write[1] != "events"]
    assert written == [("create", "jobs")] * COUNT + [("patch", "cronjobs")] * COUNT
