"""Starting runs when something goes wrong: no answer, a refusal, an outage, late watches, a clock that jumps."""

from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from kcr.api.batch import CronJob, Job
from kcr.errors import Cause, ConflictError, ForbiddenError, ServerError
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.losses import LOSSES, Loss
from tests.kit.clocks import ShiftedClock
from tests.kit.cronjob_harness import (
    TEN,
    at,
    complete,
    create,
    cronjob_controller,
    events_of,
    listed,
    make_job,
    manifest,
    names_of,
    times_told,
    until,
)

pytestmark = pytest.mark.kcr_virtual


@pytest.mark.parametrize("loss", LOSSES)
async def test_answer_that_never_comes_is_asked_for_before_the_next_run(
    server: EmbeddedCluster, kcr_clock: VirtualClock, loss: Loss
) -> None:
    # The Job exists, the reply was lost, and the watch does not show it: under Forbid it counts all the same.
    await create(server.client, manifest(concurrencyPolicy="Forbid"))
    faults = FaultyTransport(server.transport)
    faults.on("watch", Job, nth=1).freeze(after=1)
    faults.on("create", Job, nth=1).lose_reply(loss)
    async with cronjob_controller(server, kcr_clock, transport=faults):
        faults.on("watch", Job).fail(ServerError(500, "InternalError", "no"))
        faults.on("list", Job).fail(ServerError(500, "InternalError", "no"))
        faults.on("get", Job).fail(ServerError(500, "InternalError", "no"))
        await until(kcr_clock, at("10:01:15"))
        faults.heal()
        await until(kcr_clock, at("10:02:30"))
        assert len(await names_of(server.client)) == 1
        assert await listed(server.client) == await names_of(server.client)
        reasons = {reason for reason, _ in await events_of(server.client)}
    assert reasons == {"FailedCreate", "JobAlreadyActive"}


async def test_refused_creation_is_told_and_tried_again(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Row 39: what has ended was cleared away all the same, which may be what the quota waits for.
    cron = await create(server.client, manifest(successfulJobsHistoryLimit=0))
    await make_job(server.client, cron, "hello-a", end="Complete")
    faults = FaultyTransport(server.transport)
    faults.on("create", Job, nth=1).fail(ForbiddenError(403, "Forbidden", "exceeded quota"))
    await until(kcr_clock, at("10:00:00.1"))
    async with cronjob_controller(server, kcr_clock, transport=faults):
        await kcr_clock.advance(1)
    assert await names_of(server.client) == ["hello-29671800"]
    assert await events_of(server.client) == [
        ("SuccessfulDelete", "Deleted job hello-a"),
        ("FailedCreate", "Error creating job: exceeded quota"),
        ("SuccessfulCreate", "Created job hello-29671800"),
    ]


async def test_run_after_a_long_outage_is_in_time(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Upstream waits for the end of its back-off, which is ten minutes by then.
    await create(server.client, manifest())
    faults = FaultyTransport(server.transport)
    faults.on("create", Job).fail(ServerError(500, "InternalError", "no"))
    async with cronjob_controller(server, kcr_clock, transport=faults):
        await until(kcr_clock, at("10:10:30"))
        faults.heal()
        await until(kcr_clock, at("10:11:00.2"))
        assert await names_of(server.client) == ["hello-29671811"]


async def test_creation_in_a_namespace_that_goes_is_no_failure(
    server: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    # Row 40; upstream retries with backoff.
    await create(server.client, manifest())
    ending = ForbiddenError(
        403, "Forbidden", "it is being terminated", causes=(Cause("metadata.namespace", "NamespaceTerminating"),)
    )
    faults = FaultyTransport(server.transport)
    faults.on("create", Job).fail(ending)
    await until(kcr_clock, at("10:00:00.1"))
    async with cronjob_controller(server, kcr_clock, transport=faults) as manager:
        await kcr_clock.advance(1)
        assert [run.outcome for run in manager.controllers["cronjob"].journal.runs] == ["requeue_after"]
    assert await events_of(server.client) == []


async def test_conflict_after_the_creation_starts_nothing_twice(
    server: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    # Row 55.
    await create(server.client, manifest())
    faults = FaultyTransport(server.transport)
    faults.on("patch", CronJob, nth=1).fail(ConflictError)
    async with cronjob_controller(server, kcr_clock, transport=faults):
        await until(kcr_clock, at("10:00:01"))
        assert await listed(server.client) == ["hello-29671800"]
        assert await times_told(server.client) == {"SuccessfulCreate": 1}
        await until(kcr_clock, at("10:01:01"))
        assert await listed(server.client) == ["hello-29671800", "hello-29671801"]


@pytest.mark.parametrize(("of_jobs", "of_crons"), [(0.3, 0.4), (0.4, 0.3)])
async def test_late_watches_make_no_request_and_no_event_twice(
    server: EmbeddedCluster, kcr_clock: VirtualClock, of_jobs: float, of_crons: float
) -> None:
    # A pass waits until the stores show what the one before it has written.
    await create(server.client, manifest())
    faults = FaultyTransport(server.transport)
    faults.on("watch", Job).lag(of_jobs)
    faults.on("watch", CronJob).lag(of_crons)
    async with cronjob_controller(server, kcr_clock, transport=faults):
        await until(kcr_clock, at("10:00:20"))
        await complete(server.client, "hello-29671800", at("10:00:20"))
        await until(kcr_clock, at("10:00:50"))
    writes = [(call.verb, call.name) for call in faults.calls if call.verb in ("get", "create", "patch")]
    assert [call for call in writes if call[0] == "get"] == []
    assert [call for call in writes if call[1] == "hello"] == [("patch", "hello"), ("patch", "hello")]
    assert await times_told(server.client) == {"SuccessfulCreate": 1, "SawCompletedJob": 1}


async def test_run_that_was_slept_through_starts_within_a_minute(
    server: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    # Timers stand still while a machine sleeps.
    await create(server.client, manifest(schedule="0 12 * * *"))
    shifted = ShiftedClock(kcr_clock)
    async with cronjob_controller(server, shifted):
        await until(kcr_clock, TEN)
        shifted.by = timedelta(hours=8)
        await kcr_clock.advance(61)
        assert await names_of(server.client) == ["hello-29671920"]


async def test_clock_that_was_set_back_is_told_by_event_and_log(
    server: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await create(server.client, manifest())
    shifted = ShiftedClock(kcr_clock)
    with capture_logs() as logs:
        async with cronjob_controller(server, shifted):
            await until(kcr_clock, at("10:00:20"))
            assert await names_of(server.client) == ["hello-29671800"]
            shifted.by = -timedelta(hours=2)
            await kcr_clock.advance(61)
            told = [message for reason, message in await events_of(server.client) if "Future" in reason]
            assert told == [
                "The last run is on record for 2026-06-01T10:00:00Z, which lies in the future: no run is started "
                "before a later one is due. A clock was set back, or was wrong then: set the clock of the controller "
                "right, or remove status.lastScheduleTime"
            ]
            assert await names_of(server.client) == ["hello-29671800"]
            shifted.by = timedelta()
            await kcr_clock.advance(61)
            assert await names_of(server.client) == ["hello-29671800", "hello-29671802"]
            assert len([reason for reason, _ in await events_of(server.client) if "Future" in reason]) == 1
    (line,) = (line for line in logs if "future" in line["event"])
    assert (line["cronjob"], line["log_level"]) == ("default/hello", "warning")
