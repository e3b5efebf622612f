"""CronJobs with annotations under `kcr.dev/`: runs within a window, and changes of the clock."""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from kcr.api.batch import CronJob
from kcr.controllers.cronjob.decisions.directives import offset_of
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.cronjob_harness import (
    TEN,
    change,
    create,
    cronjob_controller,
    events_of,
    jobs_of,
    manifest,
    names_of,
    read,
    times_told,
    until,
)

pytestmark = pytest.mark.kcr_virtual

SPRING = datetime(2026, 3, 29, 1, tzinfo=UTC)
SKEW = "cronjob_controller_job_creation_skew_duration_seconds_sum"


async def annotated(server: EmbeddedCluster, schedule: str = "*/1 * * * *", **fields: Any) -> CronJob:
    """Create a CronJob; fields of its spec by their names on the wire, annotations with `kcr.dev/`."""
    annotations = {name: fields.pop(name) for name in tuple(fields) if "/" in name}
    cron = manifest(schedule=schedule, **fields)
    cron["metadata"]["annotations"] = annotations
    return await create(server.client, cron)


async def test_run_starts_at_its_offset_and_counts_as_scheduled(
    server: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    cron = await annotated(server, **{"kcr.dev/spread": "40s"})
    offset = offset_of(cron)
    assert timedelta(seconds=1) < offset < timedelta(seconds=40)
    async with cronjob_controller(server, kcr_clock) as manager:
        await until(kcr_clock, TEN + offset)
        assert await names_of(server.client) == []
        await until(kcr_clock, TEN + offset + timedelta(seconds=0.2))
        (job,) = await jobs_of(server.client)
        assert job.metadata.name == "hello-29671800"
        assert (await read(server.client)).status.last_schedule_time == TEN
        await until(kcr_clock, TEN + timedelta(minutes=2) + offset + timedelta(seconds=0.2))
        assert await names_of(server.client) == ["hello-29671800", "hello-29671801", "hello-29671802"]
        # A run is late by the time from its own start.
        late = manager.metrics.registry.get_sample_value(SKEW)
    assert late is not None
    assert late < 2


async def test_new_schedule_keeps_the_offset(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    cron = await annotated(server, "0 0 1 1 *", **{"kcr.dev/spread": "40s"})
    async with cronjob_controller(server, kcr_clock):
        await change(server.client, schedule="*/1 * * * *")
        await until(kcr_clock, TEN + offset_of(cron))
        assert await names_of(server.client) == []
        await until(kcr_clock, TEN + offset_of(cron) + timedelta(seconds=0.2))
        assert await names_of(server.client) == ["hello-29671800"]


async def test_unreadable_annotation_is_one_event(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await annotated(server, **{"kcr.dev/spread": "5 minutes"})
    async with cronjob_controller(server, kcr_clock):
        await until(kcr_clock, TEN + timedelta(minutes=3, seconds=1))
        assert len(await names_of(server.client)) == 4
        assert (await times_told(server.client))["InvalidAnnotation"] == 1
        (told,) = [message for reason, message in await events_of(server.client) if reason == "InvalidAnnotation"]
    assert told.startswith("annotation kcr.dev/spread: '5 minutes' is ignored: ")


@pytest.mark.parametrize("annotation", ["168h", ""])
async def test_change_of_the_clock_is_announced_once_and_a_week_before(annotation: str) -> None:
    clock = VirtualClock(SPRING - timedelta(days=7, hours=1))
    async with EmbeddedCluster(clock=clock, random=Random(0), runtime=None) as server:
        wanted = {"kcr.dev/clock-change-notice": annotation} if annotation else {}
        await annotated(server, "30 2 29 * *", timeZone="Europe/Berlin", **wanted)
        async with cronjob_controller(server, clock):
            await until(clock, SPRING - timedelta(days=7, seconds=1))
            assert (await times_told(server.client))["ClockChange"] == 0
            await until(clock, SPRING - timedelta(days=7) + timedelta(seconds=1))
            assert (await times_told(server.client))["ClockChange"] == (1 if annotation else 0)
            await change(server.client, successfulJobsHistoryLimit=2)
            await clock.advance(5)
            assert (await times_told(server.client))["ClockChange"] == (1 if annotation else 0)
            told = [message for reason, message in await events_of(server.client) if reason == "ClockChange"]
    assert not annotation or told == [
        "the clock of Europe/Berlin is set forward by 60m on 2026-03-29 at 02:00: the run of 02:30 is skipped on that "
        "day"
    ]
