"""Two controllers at work by mistake, or what one does not know of another that was there meanwhile."""

from datetime import timedelta

import pytest

from kcr.api.batch import CronJob
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.cronjob_harness import (
    TEN,
    at,
    complete,
    create,
    cronjob_controller,
    events_of,
    make_job,
    manifest,
    names_of,
    ran_before,
    read,
    until,
)

pytestmark = pytest.mark.kcr_virtual


async def test_record_of_a_run_comes_too_late_to_matter(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # The first controller starts ten o'clock, and its record of it is on the way for a minute. Meanwhile the second
    # one starts the next run, and clears both away.
    await create(server.client, manifest(successfulJobsHistoryLimit=0))
    faults = FaultyTransport(server.transport)
    faults.on("patch", CronJob, nth=1).delay(75)
    async with cronjob_controller(server, kcr_clock, transport=faults):
        await until(kcr_clock, at("10:00:00.3"))
        async with cronjob_controller(server, kcr_clock, seed=2):
            for minute in (0, 1):
                moment = at(f"10:0{minute}:10")
                await until(kcr_clock, moment)
                await complete(server.client, f"hello-2967180{minute}", moment)
            await until(kcr_clock, at("10:01:14"))
        await until(kcr_clock, at("10:01:45"))
        assert await names_of(server.client) == []
        status = (await read(server.client)).status
        assert (status.active, status.last_schedule_time) == ((), at("10:01:00"))


async def test_job_of_a_run_to_come_is_not_on_record(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Another controller's clock was wrong by a week. Trusting its annotation would start nothing for as long.
    cron = await ran_before(server.client)
    late = TEN + timedelta(days=7)
    await make_job(server.client, cron, f"hello-{int(late.timestamp()) // 60}", run=late)
    async with cronjob_controller(server, kcr_clock):
        await until(kcr_clock, at("10:02:00.2"))
        assert {"hello-29671801", "hello-29671802"} <= {*await names_of(server.client)}
        assert "UnexpectedJob" in {reason for reason, _ in await events_of(server.client)}
