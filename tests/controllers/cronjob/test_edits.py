"""Editing a CronJob while a timer runs, row by row of cronjob-controller §19; and who may run the controller at all."""

from typing import Any

import pytest
from click import UsageError

import kcr
from kcr.api.batch import CronJob, Job
from kcr.app.plugins import read_options
from kcr.client import Client
from kcr.controllers.cronjob.controller import Options, setup
from kcr.errors import ConfigError
from kcr.testing import FakeSource, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.cronjob_harness import (
    TEN,
    at,
    change,
    create,
    cronjob_controller,
    jobs_of,
    manifest,
    names_of,
    until,
    with_status,
)

pytestmark = pytest.mark.kcr_virtual


@pytest.mark.parametrize(
    ("schedule", "edits", "first", "then"),
    [
        pytest.param("30 * * * *", {"schedule": "*/1 * * * *"}, "hello-29671800", "10:00:00.1", id="58-sooner"),
        pytest.param("@every 1m", {"schedule": "@every 3m"}, "hello-29671802", "10:02:00.1", id="59-later"),
        pytest.param("0 12 * * *", {"timeZone": "Europe/Rome"}, "hello-29671800", "10:00:00.1", id="another-zone"),
    ],
)
async def test_new_schedule_starts_its_next_run_and_none_before(
    server: EmbeddedCluster, kcr_clock: VirtualClock, schedule: str, edits: dict[str, Any], first: str, then: str
) -> None:
    cron = await create(server.client, manifest(schedule=schedule))
    await with_status(server.client, cron, last_schedule_time=at("09:59:00"))
    await until(kcr_clock, at("09:59:20"))
    async with cronjob_controller(server, kcr_clock):
        await until(kcr_clock, at("09:59:59"))
        await change(server.client, **edits)
        await until(kcr_clock, at(then))
        before = await names_of(server.client)
        await kcr_clock.advance(0.1)
        assert await names_of(server.client) == [first]
        assert before in ([], [first])


async def test_edit_of_the_template_is_looked_at_at_once(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Row 60: whatever is due is started, here a run that was missed meanwhile.
    cron = await create(server.client, manifest(suspend=True))
    async with cronjob_controller(server, kcr_clock):
        await until(kcr_clock, at("10:00:30"))
        await change(server.client, suspend=False, jobTemplate={"metadata": {"labels": {"a": "c"}}})
        await kcr_clock.advance(0.1)
        (job,) = await jobs_of(server.client)
    assert (job.metadata.name, job.metadata.labels["a"]) == ("hello-29671800", "c")
    assert cron.status.last_schedule_time is None


async def test_schedule_without_its_zone_is_not_looked_at_at_once(
    server: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    # Row 61: by the zone of the process a run was due at nine, and it has to wait for its next turn.
    cron = await create(server.client, manifest(schedule="0 9 * * *", timeZone="America/New_York"))
    await with_status(server.client, cron, last_schedule_time=at("13:00:00", "2026-05-31"))
    async with cronjob_controller(server, kcr_clock):
        await until(kcr_clock, TEN)
        await change(server.client, timeZone=None)
        # New York's nine o'clock, whose timer was not cancelled.
        await until(kcr_clock, at("12:59:59"))
        assert await names_of(server.client) == []
        await until(kcr_clock, at("13:00:01"))
        assert await names_of(server.client) == ["hello-29671740"]


async def test_timer_of_an_old_schedule_finds_what_the_new_one_says(
    server: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    # Row 63 and Q3.
    cron = await create(server.client, manifest(schedule="0 8 * * *"))
    await with_status(server.client, cron, last_schedule_time=at("08:00:00"))
    async with cronjob_controller(server, kcr_clock):
        await until(kcr_clock, TEN)
        await change(server.client, schedule="0 9 * * *")
        await until(kcr_clock, at("08:00:00", "2026-06-02"))
        assert await names_of(server.client) == []
        await kcr_clock.advance(0.2)
        assert await names_of(server.client) == ["hello-29671740"]
        await until(kcr_clock, at("09:00:00.2", "2026-06-02"))
        assert await names_of(server.client) == ["hello-29671740", "hello-29673180"]


async def test_controller_needs_a_cluster_to_itself() -> None:
    manager = kcr.Manager(Client(FakeSource(CronJob)))
    with pytest.raises(ConfigError, match=r"'cronjob' cannot share a cluster .*-cronjob-controller.* --take-over"):
        setup(manager, Options())
    setup(manager, Options(take_over=True))
    assert {selection.kind for selection in manager.selections} == {CronJob, Job}


def test_unknown_zone_is_refused_as_an_option() -> None:
    with pytest.raises(UsageError, match="KCR_CRONJOB_TIME_ZONE: unknown time zone Bad/Zone; write a name such as"):
        read_options(Options, {"KCR_CRONJOB_TIME_ZONE": "Bad/Zone"}, {})
