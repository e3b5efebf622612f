"""Jobs of a CronJob that a user has started, beside its schedule (`kcr run-now`, `kcr rerun`)."""

import pytest

from kcr.api.batch import Job
from kcr.api.meta import Key
from kcr.controllers.job.commands.copies import WholeJob, rerun_of, run_name, run_of
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.cronjob_harness import (
    TEN,
    at,
    complete,
    create,
    cronjob_controller,
    events_of,
    listed,
    manifest,
    names_of,
    read,
    until,
)

pytestmark = pytest.mark.kcr_virtual


async def test_requested_job_is_no_run_of_the_schedule(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    cron = await create(server.client, manifest(concurrencyPolicy="Forbid"))
    name = run_name(cron, kcr_clock.now())
    assert name == "hello-m29671799"
    await server.client.create_manifest(Job, run_of(cron, name), "default")
    async with cronjob_controller(server, kcr_clock):
        await until(kcr_clock, at("10:00:30"))
        # It delays no run, is in no list, and is nothing unexpected.
        assert await names_of(server.client) == ["hello-29671800", name]
        assert await listed(server.client) == ["hello-29671800"]
        assert (await read(server.client)).status.last_schedule_time == TEN
        assert [reason for reason, _ in await events_of(server.client)] == ["SuccessfulCreate"]


async def test_copy_of_a_run_does_not_count_as_that_run(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await create(server.client, manifest())
    async with cronjob_controller(server, kcr_clock):
        await until(kcr_clock, at("10:00:20"))
        await complete(server.client, "hello-29671800", at("10:00:20"), end="Failed")
        old = await server.client.get(WholeJob, Key("default", "hello-29671800"))
        await server.client.create_manifest(Job, rerun_of(old, "hello-29671800-rerun-1"), "default")
        await until(kcr_clock, at("10:00:40"))
        assert await listed(server.client) == []
        assert (await read(server.client)).status.last_schedule_time == TEN
        reasons = [reason for reason, _ in await events_of(server.client)]
        assert reasons == ["SuccessfulCreate", "SawCompletedJob"]


async def test_requested_jobs_are_kept_as_the_history_limits_say(
    server: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    cron = await create(server.client, manifest(schedule="0 0 1 1 *", successfulJobsHistoryLimit=1))
    for name in ("hello-one", "hello-two"):
        await server.client.create_manifest(Job, run_of(cron, name), "default")
    async with cronjob_controller(server, kcr_clock):
        await complete(server.client, "hello-one", at("09:59:20"))
        await complete(server.client, "hello-two", at("09:59:30"))
        await until(kcr_clock, at("10:00:00"))
        assert len(await names_of(server.client)) == 1
