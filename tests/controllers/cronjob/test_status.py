"""Following Jobs and clearing them away, row by row of cronjob-controller §19, on the embedded cluster."""

import itertools
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from kcr.api.batch import CronJob, Job
from kcr.api.core import Event, ObjectReference, reference_to
from kcr.api.meta import Key
from kcr.errors import ServerError
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.cronjob_harness import (
    CREATED,
    TEN,
    at,
    create,
    cronjob_controller,
    events_of,
    listed,
    make_job,
    manifest,
    names_of,
    ran_before,
    read,
    until,
    with_status,
)

pytestmark = pytest.mark.kcr_virtual

HALF_PAST = at("10:00:30")
BY_HAND = ("UnexpectedJob", "Saw a job that the controller did not create or forgot: stray")


async def with_lost_job(server: EmbeddedCluster) -> CronJob:
    """The CronJob of the rows, with a Job in its list that is not there."""
    cron = await ran_before(server.client, "hello-a")
    await server.client.delete(Job, Key("default", "hello-a"), propagation="Background")
    return cron


async def test_listed_job_that_is_gone_is_missing(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Row 31.
    await with_lost_job(server)
    await until(kcr_clock, HALF_PAST)
    async with cronjob_controller(server, kcr_clock):
        await kcr_clock.advance(0.1)
        assert await listed(server.client) == []
        assert await events_of(server.client) == [("MissingJob", "Active job went missing: hello-a")]
        await until(kcr_clock, at("10:01:00.2"))
        assert await names_of(server.client) == ["hello-29671801"]


async def test_stray_job_is_told_twice_a_run(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # As upstream: when the run starts, and when its Job is seen. The echo of our own status is no reconcile.
    cron = await create(server.client, manifest())
    await make_job(server.client, cron, "stray")
    await until(kcr_clock, HALF_PAST)
    async with cronjob_controller(server, kcr_clock):
        counts = []
        for minute in range(1, 4):
            await until(kcr_clock, at(f"10:0{minute}:30"))
            (told,) = [one for one in await server.client.list(Event, "default") if one.reason == "UnexpectedJob"]
            counts.append(told.count)
    assert [after - before for before, after in itertools.pairwise(counts)] == [2, 2]


async def test_listed_job_that_is_only_unseen_stays(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Row 32.
    cron = await create(server.client, manifest())
    cron = await with_status(server.client, cron, last_schedule_time=TEN)
    faults = FaultyTransport(server.transport)
    faults.on("watch", Job).lag(20)
    async with cronjob_controller(server, kcr_clock, transport=faults):
        await until(kcr_clock, HALF_PAST)
        job = await make_job(server.client, cron, "hello-a")
        await with_status(server.client, await read(server.client), active=(reference_to(job),))
        await kcr_clock.advance(1)
        assert await listed(server.client) == ["hello-a"]
        assert await events_of(server.client) == []


async def test_namesake_of_a_listed_job_is_not_that_job(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Unlike upstream, which keeps the entry for as long as anything of this name is there.
    await with_lost_job(server)
    await make_job(server.client, None, "hello-a")
    await until(kcr_clock, HALF_PAST)
    async with cronjob_controller(server, kcr_clock):
        await kcr_clock.advance(0.1)
    assert await listed(server.client) == []
    assert await events_of(server.client) == [("MissingJob", "Active job went missing: hello-a")]


async def test_listed_nothing_is_missing(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # The server checks no entry of the list. What has no name can never be found, however often one asks.
    cron = await ran_before(server.client)
    await with_status(server.client, cron, active=(ObjectReference(kind="Job"),))
    await until(kcr_clock, at("10:01:00.1"))
    async with cronjob_controller(server, kcr_clock):
        await kcr_clock.advance(0.1)
    assert await listed(server.client) == ["hello-29671801"]
    assert await events_of(server.client) == [
        ("MissingJob", "Active job went missing: "),
        ("SuccessfulCreate", "Created job hello-29671801"),
    ]


async def test_doubt_without_an_answer_decides_nothing(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Row 33. What was cleared away before is on record all the same.
    cron = await with_lost_job(server)
    ended = await make_job(server.client, cron, "hello-b", end="Complete")
    await with_status(server.client, cron, active=(*cron.status.active, reference_to(ended)))
    await server.client.merge_patch(CronJob, cron.key, {"spec": {"successfulJobsHistoryLimit": 0}})
    faults = FaultyTransport(server.transport)
    faults.on("get", Job).fail(ServerError(500, "InternalError", "no"))
    await until(kcr_clock, at("10:01:00.1"))
    async with cronjob_controller(server, kcr_clock, transport=faults):
        await kcr_clock.advance(0.3)
        assert await listed(server.client) == ["hello-a"]
        assert await names_of(server.client) == []
        assert await events_of(server.client) == [("SuccessfulDelete", "Deleted job hello-b")]
        faults.heal()
        await kcr_clock.advance(5)
        assert await names_of(server.client) == ["hello-29671801"]
        reasons = [reason for reason, _ in await events_of(server.client)]
        assert reasons == ["SuccessfulDelete", "MissingJob", "SuccessfulCreate"]


async def test_stray_job_is_told_and_not_adopted(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Row 34.
    cron = await ran_before(server.client)
    await make_job(server.client, cron, "stray")
    before = (await read(server.client)).metadata.resource_version
    await until(kcr_clock, HALF_PAST)
    async with cronjob_controller(server, kcr_clock):
        await kcr_clock.advance(1)
        assert await events_of(server.client) == [BY_HAND]
        assert (await read(server.client)).metadata.resource_version == before
        await until(kcr_clock, at("10:01:00.2"))
        assert await listed(server.client) == ["hello-29671801"]


async def test_job_that_only_the_server_lists_is_expected(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Row 35, and Q1: what else was found out is written to the newer version.
    cron = await ran_before(server.client, "hello-a")
    faults = FaultyTransport(server.transport)
    # The Job is seen after it was listed, and that it is listed after that.
    faults.on("watch", Job).lag(0.3)
    faults.on("watch", CronJob).lag(5)
    async with cronjob_controller(server, kcr_clock, transport=faults):
        await until(kcr_clock, HALF_PAST)
        fresh = await read(server.client)
        job = await make_job(server.client, cron, "elsewhere")
        ended = await make_job(server.client, cron, "ended", end="Complete", completed=at("10:00:20"))
        active = (*fresh.status.active, reference_to(job), reference_to(ended))
        await with_status(server.client, fresh, active=active)
        await kcr_clock.advance(2)
        assert await listed(server.client) == ["hello-a", "elsewhere"]
        assert (await read(server.client)).status.last_successful_time == at("10:00:20")
        assert await events_of(server.client) == [("SawCompletedJob", "Saw completed job: ended, condition: Complete")]


async def test_oldest_successes_are_cleared_away(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Row 48.
    cron = await ran_before(server.client)
    for hour in range(1, 6):
        began, ended = at(f"0{hour}:00:00"), at(f"0{hour}:30:00")
        await make_job(server.client, cron, f"hello-j{hour}", end="Complete", started=began, completed=ended)
    await until(kcr_clock, HALF_PAST)
    async with cronjob_controller(server, kcr_clock):
        await kcr_clock.advance(1)
    assert await names_of(server.client) == ["hello-j3", "hello-j4", "hello-j5"]
    assert await events_of(server.client) == [
        ("SuccessfulDelete", "Deleted job hello-j1"),
        ("SuccessfulDelete", "Deleted job hello-j2"),
    ]
    assert (await read(server.client)).status.last_successful_time == at("05:30:00")


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        pytest.param({"failedJobsHistoryLimit": 1}, ["hello-f2", "hello-s1", "hello-s2"], id="49-failures"),
        pytest.param(
            {"successfulJobsHistoryLimit": None, "failedJobsHistoryLimit": 0}, ["hello-s1", "hello-s2"],
            id="52-no-limit-for-successes",
        ),
        pytest.param({"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0}, [], id="none-kept"),
    ],
)  # fmt: skip
async def test_limits_say_what_is_kept(
    server: EmbeddedCluster, kcr_clock: VirtualClock, limits: dict[str, Any], left: list[str]
) -> None:
    cron = await ran_before(server.client)
    # A limit that is not given is filled in when the CronJob is made; one that is taken away later stays away.
    await server.client.merge_patch(CronJob, cron.key, {"spec": limits})
    for letter, end in (("f", "Failed"), ("s", "Complete")):
        for number in (1, 2):
            await make_job(server.client, cron, f"hello-{letter}{number}", end=end, started=at(f"0{number}:00:00"))
    await until(kcr_clock, HALF_PAST)
    async with cronjob_controller(server, kcr_clock):
        await kcr_clock.advance(1)
    assert await names_of(server.client) == left


async def test_job_that_is_not_kept_is_not_told_to_have_ended(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Row 50.
    cron = await ran_before(server.client, successfulJobsHistoryLimit=0)
    ended = await make_job(server.client, cron, "hello-a", end="Complete", completed=at("10:00:10"))
    await with_status(server.client, cron, active=(reference_to(ended),))
    await until(kcr_clock, HALF_PAST)
    async with cronjob_controller(server, kcr_clock):
        await kcr_clock.advance(1)
    status = (await read(server.client)).status
    assert (status.active, status.last_successful_time) == ((), at("10:00:10"))
    assert await events_of(server.client) == [("SuccessfulDelete", "Deleted job hello-a")]


async def test_job_that_cannot_be_cleared_away_holds_up_nothing(
    server: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    # Row 51.
    cron = await ran_before(server.client, successfulJobsHistoryLimit=0)
    await make_job(server.client, cron, "hello-a", end="Complete")
    faults = FaultyTransport(server.transport)
    faults.on("delete", Job, nth=1).fail(ServerError(500, "InternalError", "no"))
    await until(kcr_clock, at("10:01:00.1"))
    async with cronjob_controller(server, kcr_clock, transport=faults):
        await kcr_clock.advance(1)
    # With the next sync it can be.
    assert await names_of(server.client) == ["hello-29671801"]
    reasons = [reason for reason, _ in await events_of(server.client)]
    assert reasons == ["FailedDelete", "SuccessfulCreate", "SuccessfulDelete"]
    assert (await events_of(server.client))[0] == ("FailedDelete", "Deleted job: no")


async def test_cronjob_that_goes_still_follows_its_jobs(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Row 30, and 5.7: history is cleared while it goes, too.
    cron = await ran_before(server.client, failedJobsHistoryLimit=0)
    ended = await make_job(server.client, cron, "hello-a", end="Complete", completed=at("10:00:10"))
    await make_job(server.client, cron, "hello-f", end="Failed")
    cron = await with_status(server.client, cron, active=(reference_to(ended),))
    cron = await server.client.merge_patch(CronJob, cron.key, {"metadata": {"finalizers": ["example.dev/hold"]}})
    await server.client.delete(CronJob, cron.key, propagation="Background")
    await until(kcr_clock, at("10:05:00"))
    async with cronjob_controller(server, kcr_clock):
        await kcr_clock.advance(120)
    status = (await read(server.client)).status
    assert (status.active, status.last_successful_time) == ((), at("10:00:10"))
    assert [reason for reason, _ in await events_of(server.client)] == ["SuccessfulDelete", "SawCompletedJob"]
    assert await names_of(server.client) == ["hello-a"]


async def test_job_of_an_earlier_cronjob_counts_by_its_name(kcr_clock: VirtualClock) -> None:
    # Section 4, Q2. Where there is a garbage collector, it is quicker.
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None, gc=False) as server:
        cron = await ran_before(server.client, successfulJobsHistoryLimit=0)
        earlier = replace(cron, metadata=replace(cron.metadata, uid="00000000-0000-4000-8000-000000000000"))
        await make_job(server.client, earlier, "hello-old", end="Complete", completed=CREATED)
        async with cronjob_controller(server, kcr_clock):
            await kcr_clock.advance(1)
        assert await events_of(server.client) == [("SuccessfulDelete", "Deleted job hello-old")]
        assert (await read(server.client)).status.last_successful_time == CREATED


async def test_deleted_cronjob_starts_nothing_more(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    cron = await create(server.client, manifest())
    async with cronjob_controller(server, kcr_clock):
        await until(kcr_clock, at("09:59:50"))
        await server.client.delete(CronJob, cron.key)
        await until(kcr_clock, at("10:02:00"))
        assert await names_of(server.client) == []


async def test_cronjob_made_anew_starts_clean(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    cron = await create(server.client, manifest())
    async with cronjob_controller(server, kcr_clock):
        await until(kcr_clock, at("10:00:10"))
        await server.client.delete(CronJob, cron.key, propagation="Background")
        await create(server.client, manifest())
        await until(kcr_clock, at("10:01:10"))
        assert await names_of(server.client) == ["hello-29671801"]
        assert await listed(server.client) == ["hello-29671801"]
