"""Many CronJobs due in the same minute: what is due is started first, the statuses are written later."""

import pytest

from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.cronjob_harness import at, create, cronjob_controller, manifest, until

pytestmark = pytest.mark.kcr_virtual

COUNT = 50


async def test_all_that_are_due_start_before_the_first_record(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    for number in range(COUNT):
        await create(server.client, manifest(f"c{number}"))
    transport = FaultyTransport(server.transport)
    async with cronjob_controller(server, kcr_clock, transport=transport):
        await until(kcr_clock, at("10:00:30"))
        writes = [(call.verb, call.resource[2]) for call in transport.calls if call.verb in ("create", "patch")]
    # And each of them takes two writes, its event apart.
    written = [write for write in writes if write[1] != "events"]
    assert written == [("create", "jobs")] * COUNT + [("patch", "cronjobs")] * COUNT
