"""Starting runs, row by row of cronjob-controller §19, on the embedded cluster in virtual time."""

from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from kcr.api.batch import Job
from kcr.errors import AlreadyExistsError
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.cronjob_harness import (
    CREATED,
    TEN,
    at,
    change,
    complete,
    create,
    cronjob_controller,
    events_of,
    jobs_of,
    listed,
    make_job,
    manifest,
    names_of,
    ran_before,
    read,
    until,
)

pytestmark = pytest.mark.kcr_virtual

SKEW = "cronjob_controller_job_creation_skew_duration_seconds"


async def test_due_run_is_started_and_put_on_record(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Row 1.
    await create(server.client, manifest())
    async with cronjob_controller(server, kcr_clock) as manager:
        await until(kcr_clock, at("10:00:00.05"))
        assert await names_of(server.client) == []
        await until(kcr_clock, at("10:00:00.2"))
        (job,) = await jobs_of(server.client)
        cron = await read(server.client)
        await kcr_clock.advance(30)
        assert len(await jobs_of(server.client)) == 1
        assert await events_of(server.client) == [("SuccessfulCreate", "Created job hello-29671800")]
        skew = manager.metrics.registry.get_sample_value(f"{SKEW}_count")
    assert job.metadata.name == "hello-29671800"
    assert job.metadata.annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2026-06-01T10:00:00Z"
    assert (job.metadata.labels["a"], job.metadata.annotations["x"]) == ("b", "y")
    assert cron.status.last_schedule_time == TEN
    assert [(one.kind, one.uid) for one in cron.status.active] == [("Job", job.metadata.uid)]
    assert skew == 1


async def test_run_starts_under_a_deadline_of_three_thousand_years(
    server: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    # Q10. Difference: cronjob-long-deadline.
    await create(server.client, manifest(startingDeadlineSeconds=10**11))
    async with cronjob_controller(server, kcr_clock):
        await until(kcr_clock, at("10:00:00.2"))
        assert await names_of(server.client) == ["hello-29671800"]


async def test_later_run_comes_by_itself(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Rows 2 and 3: nothing happens but the timer.
    await create(server.client, manifest())
    async with cronjob_controller(server, kcr_clock):
        await until(kcr_clock, at("10:02:00.2"))
        assert await names_of(server.client) == ["hello-29671800", "hello-29671801", "hello-29671802"]
        assert await listed(server.client) == await names_of(server.client)


async def test_second_half_of_the_minute_finds_its_name_taken(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Row 18. Difference: cronjob-name-of-its-own.
    cron = await ran_before(server.client, schedule="@every 30s")
    await make_job(server.client, cron, "hello-29671800", end="Complete", run=TEN)
    await until(kcr_clock, at("10:00:30.1"))
    async with cronjob_controller(server, kcr_clock):
        await kcr_clock.advance(0.1)
        assert (await read(server.client)).status.last_schedule_time == at("10:00:30")
        assert await names_of(server.client) == ["hello-29671800"]
        await until(kcr_clock, at("10:01:00.3"))
        assert await names_of(server.client) == ["hello-29671800", "hello-29671801"]
        assert [reason for reason, _ in await events_of(server.client)] == ["SawCompletedJob", "SuccessfulCreate"]


async def test_forbidden_run_is_made_up_for_when_the_job_ends(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Rows 19 and 20.
    cron = await ran_before(server.client, "hello-a", concurrencyPolicy="Forbid")
    before = cron.metadata.resource_version
    await until(kcr_clock, at("10:01:00.1"))
    async with cronjob_controller(server, kcr_clock):
        await kcr_clock.advance(0.1)
        assert await names_of(server.client) == ["hello-a"]
        assert (await read(server.client)).metadata.resource_version == before
        assert [reason for reason, _ in await events_of(server.client)] == ["JobAlreadyActive"]
        await until(kcr_clock, at("10:01:20"))
        await complete(server.client, "hello-a", at("10:00:40"))
        await kcr_clock.advance(0.1)
        assert await names_of(server.client) == ["hello-29671801", "hello-a"]
    cron = await read(server.client)
    assert [one.name for one in cron.status.active] == ["hello-29671801"]
    assert cron.status.last_successful_time == at("10:00:40")
    reasons = [reason for reason, _ in await events_of(server.client)]
    assert reasons == ["JobAlreadyActive", "SawCompletedJob", "SuccessfulCreate"]


async def test_allowed_run_is_started_beside_others(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Row 21.
    await ran_before(server.client, "hello-a")
    await until(kcr_clock, at("10:01:00.1"))
    async with cronjob_controller(server, kcr_clock):
        await kcr_clock.advance(0.1)
    assert await listed(server.client) == ["hello-a", "hello-29671801"]


async def test_job_made_by_hand_neither_forbids_nor_is_listed(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Row 36.
    cron = await ran_before(server.client, concurrencyPolicy="Forbid")
    await make_job(server.client, cron, "by-hand")
    await until(kcr_clock, at("10:01:00.1"))
    async with cronjob_controller(server, kcr_clock):
        await kcr_clock.advance(0.1)
    assert await listed(server.client) == ["hello-29671801"]
    message = "Saw a job that the controller did not create or forgot: by-hand"
    assert {("UnexpectedJob", message), ("SuccessfulCreate", "Created job hello-29671801")} == {
        *await events_of(server.client)
    }


async def test_job_of_a_run_that_was_not_recorded_is_recalled(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Row 37, as a restart finds it: by the store, before anything is created.
    cron = await create(server.client, manifest())
    await make_job(server.client, cron, "hello-29671800", run=TEN)
    await until(kcr_clock, at("10:00:00.1"))
    async with cronjob_controller(server, kcr_clock):
        await kcr_clock.advance(0.1)
        assert await listed(server.client) == ["hello-29671800"]
        assert (await read(server.client)).status.last_schedule_time == TEN
        assert await events_of(server.client) == []
        await until(kcr_clock, at("10:01:00.2"))
        assert await listed(server.client) == ["hello-29671800", "hello-29671801"]


async def test_job_that_is_there_already_is_taken_for_the_run(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Row 37, as a store that is behind meets it: the name is the lock.
    cron = await create(server.client, manifest())
    await until(kcr_clock, at("09:59:59"))
    faults = FaultyTransport(server.transport)
    faults.on("watch", Job).lag(30)
    async with cronjob_controller(server, kcr_clock, transport=faults):
        await make_job(server.client, cron, "hello-29671800", run=TEN)
        await kcr_clock.advance(0.2)
        assert await listed(server.client) == ["hello-29671800"]
        assert (await read(server.client)).status.last_schedule_time == TEN
        assert await events_of(server.client) == []


@pytest.mark.parametrize("owned", [False, True], ids=["no-owner", "other-owner"])
async def test_name_of_another_job_is_left_alone(server: EmbeddedCluster, kcr_clock: VirtualClock, owned: bool) -> None:
    # Row 38; that the next run comes is the correction of Q11. Difference: cronjob-name-taken.
    await create(server.client, manifest())
    other = await create(server.client, manifest("other", suspend=True)) if owned else None
    await make_job(server.client, other, "hello-29671800")
    await until(kcr_clock, at("10:00:00.1"))
    async with cronjob_controller(server, kcr_clock):
        await kcr_clock.advance(0.1)
        cron = await read(server.client)
        assert (cron.status.active, cron.status.last_schedule_time) == ((), None)
        assert await events_of(server.client) == []
        await until(kcr_clock, at("10:01:00.2"))
        assert await listed(server.client) == ["hello-29671801"]


async def test_name_that_becomes_free_is_taken_with_the_next_try(
    server: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    # Section 14: a Job that was there for the creation, and is not for the look at it.
    await create(server.client, manifest())
    faults = FaultyTransport(server.transport)
    faults.on("create", Job, nth=1).fail(AlreadyExistsError(409, "AlreadyExists", "it is there"))
    async with cronjob_controller(server, kcr_clock, transport=faults):
        await until(kcr_clock, at("10:00:01"))
    assert await listed(server.client) == ["hello-29671800"]


async def test_resumed_cronjob_starts_what_it_missed_at_once(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Row 27.
    await create(server.client, manifest(schedule="*/10 * * * *", suspend=True))
    async with cronjob_controller(server, kcr_clock):
        await until(kcr_clock, at("10:05:00"))
        assert await names_of(server.client) == []
        await change(server.client, suspend=False)
        await kcr_clock.advance(0.1)
        assert await names_of(server.client) == ["hello-29671800"]
        await until(kcr_clock, at("10:10:00.2"))
        assert await names_of(server.client) == ["hello-29671800", "hello-29671810"]


async def test_hour_that_comes_twice_has_two_runs(kcr_clock: VirtualClock) -> None:
    # Row 56.
    autumn = VirtualClock(datetime(2026, 11, 1, 5, 0, tzinfo=UTC))
    async with EmbeddedCluster(clock=autumn, random=Random(0), runtime=None, heartbeats=False) as cluster:
        await create(cluster.client, manifest(schedule="30 1 * * *", timeZone="America/New_York"))
        async with cronjob_controller(cluster, autumn):
            await autumn.advance(timedelta(hours=2).total_seconds())
        jobs = await jobs_of(cluster.client)
    assert [job.metadata.annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] for job in jobs] == [
        "2026-11-01T01:30:00-04:00", "2026-11-01T01:30:00-05:00",
    ]  # fmt: skip


async def test_two_hundred_cronjobs_start_what_is_due_and_no_more(kcr_clock: VirtualClock) -> None:
    # Row 65.
    kcr_clock = VirtualClock(CREATED)
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None) as cluster:
        for number in range(200):
            await create(cluster.client, manifest(f"c{number}", "0 10 * * *" if number % 4 == 0 else "0 11 * * *"))
        await until(kcr_clock, at("10:00:30"))
        async with cronjob_controller(cluster, kcr_clock):
            await kcr_clock.advance(1)
        jobs = await cluster.client.list(Job, "default")
    assert {job.metadata.name for job in jobs} == {f"c{number}-29671800" for number in range(0, 200, 4)}
