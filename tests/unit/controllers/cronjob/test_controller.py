"""What wakes a CronJob, and when: cronjob-controller §2.2 and §2.3."""

import asyncio
from datetime import UTC
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from kcr.api.batch import CronJob, Job
from kcr.api.meta import Key, OwnerReference
from kcr.app.plugins import read_options
from kcr.controller import OwnWrites, resource_version_changed, watch
from kcr.controller.sources import EnqueueRequests
from kcr.controllers.cronjob.controller import CronJobEvents, Options, owning_cronjob
from kcr.testing import FakeInformer, FakeRecorder, VirtualClock
from kcr.workqueue import WorkQueue
from tests.kit.cronjob_builders import cron, job
from tests.kit.cronjob_harness import TEN, at

pytestmark = pytest.mark.kcr_virtual

HELLO = Key("default", "hello")


class Handlers:
    """The handlers, and the queue they fill."""

    def __init__(self, start: str) -> None:
        self.queue: WorkQueue[Key] = WorkQueue()
        self.recorder = FakeRecorder()
        self.crons = FakeInformer(CronJob, cron())
        self.own_writes = OwnWrites()
        self.of_crons = CronJobEvents(self.queue, self.own_writes, self.recorder, VirtualClock(at(start)), UTC)
        jobs = watch(Job, map_to=partial(owning_cronjob, self.crons.store), predicate=resource_version_changed)
        self.of_jobs = EnqueueRequests("cronjob", jobs, self.queue.add)

    async def woken(self) -> list[str]:
        """The names of the CronJobs to be looked at now."""
        names = []
        while len(self.queue):
            key = await self.queue.get()
            self.queue.done(key)
            names.append(key.name)
        return names

    async def seconds_until_woken(self) -> float:
        """How long it takes until the next one is."""
        began = asyncio.get_running_loop().time()
        self.queue.done(await self.queue.get())
        return asyncio.get_running_loop().time() - began


@pytest.mark.parametrize(
    ("before", "after", "start", "seconds"),
    [
        pytest.param(
            cron("30 * * * *", last=at("09:59:00")), {"schedule": "*/1 * * * *"}, "09:59:59", 1.1, id="58-sooner"
        ),
        pytest.param(
            cron("@every 1m", last=at("09:59:00")), {"schedule": "@every 3m"}, "09:59:59", 121.1, id="59-later"
        ),
        pytest.param(
            cron("0 9 * * *", last=at("07:00:00"), time_zone="Europe/Rome"), {"time_zone": None}, "10:00:00",
            23 * 3600 + 0.1, id="61-no-zone",
        ),
        pytest.param(
            cron("0 12 * * *", last=at("09:59:00")), {"time_zone": "Bad/Zone"}, "11:00:00", 3600.1,
            id="an-unknown-zone-is-none",
        ),
        pytest.param(
            cron("*/5 * * * *", last=TEN), {"time_zone": ""}, "10:00:00", 300.1, id="an-empty-zone-is-another"
        ),
    ],
)  # fmt: skip
async def test_new_schedule_wakes_when_it_is_due(
    before: CronJob, after: dict[str, str | None], start: str, seconds: float
) -> None:
    handlers = Handlers(start)
    handlers.of_crons.on_update(before, replace(before, spec=replace(before.spec, **after)))
    assert await handlers.woken() == []
    assert await handlers.seconds_until_woken() == pytest.approx(seconds)


async def test_unreadable_schedule_wakes_nobody_and_is_told() -> None:
    # Row 62.
    handlers = Handlers("10:00:00")
    handlers.of_crons.on_update(cron(), cron("nope"))
    assert await handlers.woken() == []
    assert [str(event) for event in handlers.recorder.events] == [
        "Warning UnParseableCronJobSchedule unparseable schedule for cronjob: nope"
    ]


async def test_other_changes_wake_at_once() -> None:
    # Row 60; a resync and status writes of others are among them.
    handlers = Handlers("10:00:00")
    for new in (cron(suspend=True), cron(last=TEN), cron()):
        handlers.of_crons.on_update(cron(), new)
        assert await handlers.woken() == ["hello"]


@pytest.mark.parametrize(
    ("change", "woken"),
    [
        pytest.param({}, [], id="the-status-alone"),
        pytest.param({"spec": cron(suspend=True).spec}, ["hello"], id="the-spec-as-well"),
        pytest.param({"labels": {"a": "b"}}, ["hello"], id="the-metadata-as-well"),
        pytest.param({"resource_version": "8"}, ["hello"], id="another-write"),
    ],
)
async def test_echo_of_our_own_status_write_wakes_nobody(change: dict[str, Any], woken: list[str]) -> None:
    handlers, before = Handlers("10:00:00"), with_version(cron(), "6")
    written = with_version(replace(before, status=replace(before.status, last_schedule_time=TEN)), "7")
    handlers.own_writes.wrote(HELLO, handlers.crons.store, written)
    spec = change.pop("spec", written.spec)
    shown = replace(written, spec=spec, metadata=replace(written.metadata, **change))
    handlers.of_crons.on_update(before, shown)
    assert await handlers.woken() == woken


async def test_resync_after_an_echo_wakes() -> None:
    handlers, before = Handlers("10:00:00"), with_version(cron(), "6")
    written = with_version(cron(last=TEN), "7")
    handlers.own_writes.wrote(HELLO, handlers.crons.store, written)
    for old, woken in ((before, []), (written, ["hello"])):
        handlers.of_crons.on_update(old, written)
        assert await handlers.woken() == woken


def with_version(one: CronJob, version: str) -> CronJob:
    return replace(one, metadata=replace(one.metadata, resource_version=version))


async def test_cronjob_wakes_when_it_comes_and_when_it_goes() -> None:
    handlers = Handlers("10:00:00")
    handlers.of_crons.on_add(cron(), True)
    assert await handlers.woken() == ["hello"]
    handlers.queue.add_after(HELLO, 60)
    handlers.of_crons.on_delete(cron(), False)
    assert await handlers.woken() == ["hello"]
    await asyncio.sleep(61)
    assert await handlers.woken() == []


async def test_failures_of_a_namesake_are_not_its_own() -> None:
    handlers = Handlers("10:00:00")
    for _ in range(20):
        handlers.queue.add_rate_limited(HELLO)
    handlers.of_crons.on_add(cron(), False)
    assert handlers.queue.retries(HELLO) == 0


async def test_change_of_a_job_wakes_its_cronjob() -> None:
    handlers = Handlers("10:00:00")
    made = job()
    handlers.of_jobs.on_add(made, True)
    assert await handlers.woken() == ["hello"]
    handlers.of_jobs.on_update(made, replace(made, metadata=replace(made.metadata, resource_version="10")))
    assert await handlers.woken() == ["hello"]
    handlers.of_jobs.on_update(made, made)
    assert await handlers.woken() == []
    handlers.of_jobs.on_delete(made, False)
    assert await handlers.woken() == ["hello"]


async def test_job_with_another_owner_wakes_nobody() -> None:
    # Section 2.1: kind, name and UID must all fit.
    handlers = Handlers("10:00:00")
    (owner,) = job().metadata.owner_references
    for other in (
        replace(owner, uid="another"),
        replace(owner, name="other"),
        replace(owner, kind="Workflow"),
        replace(owner, controller=None),
    ):
        stranger = owned(job(), other)
        handlers.of_jobs.on_add(stranger, False)
        handlers.of_jobs.on_delete(stranger, False)
        assert await handlers.woken() == []


async def test_job_that_changes_hands_wakes_both_owners() -> None:
    # Row 64.
    handlers = Handlers("10:00:00")
    other = cron()
    other = replace(other, metadata=replace(other.metadata, name="other", uid="uid-other"))
    handlers.crons.add(other)
    moved = owned(job(), replace(job().metadata.owner_references[0], name="other", uid="uid-other"))
    handlers.of_jobs.on_update(job(), replace(moved, metadata=replace(moved.metadata, resource_version="10")))
    assert sorted(await handlers.woken()) == ["hello", "other"]


def owned(job: Job, owner: OwnerReference) -> Job:
    return replace(job, metadata=replace(job.metadata, owner_references=(owner,)))


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("KCR_WORKERS", "7", "workers", 7),
        ("KCR_TAKE_OVER", "true", "take_over", True),
        ("KCR_CRONJOB_TIME_ZONE", "Europe/Rome", "cronjob_time_zone", ZoneInfo("Europe/Rome")),
    ],
)
async def test_variable_reaches_the_controller(variable: str, text: str, field: str, value: object) -> None:
    given = read_options(Options, {variable: text}, {})
    assert getattr(given, field) == value != getattr(Options(), field)
