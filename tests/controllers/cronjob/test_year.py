"""A year of CronJobs in five zones, whose clocks change in it: exactly the runs that a look at every minute finds.

The whole plugin runs, but for the watches: half a million of their bookmarks would come in that time. What is written
shows in the stores at once.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from kcr.api.batch import CronJob, Job
from kcr.api.codec import WatchEvent
from kcr.api.meta import Key
from kcr.client import Client, Request, Response
from kcr.controllers.cronjob.controller import Options, setup
from kcr.informer import Handler
from kcr.testing import FakeManager, VirtualClock
from kcr.testing.loop import VirtualLoop
from kcr_devcluster.calls import call_of
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.cronjob_harness import create, manifest, read
from tests.kit.transports import ObservedTransport

pytestmark = pytest.mark.soak

# In March and April all clocks of `ZONES` change, in the other months they change back.
SPRING = (datetime(2026, 3, 1, tzinfo=UTC), timedelta(days=45))
YEAR = (datetime(2026, 1, 1, tzinfo=UTC), timedelta(days=365))
MINUTE = timedelta(minutes=1)

# Whole hours from Greenwich, and no midnight is skipped: what a clock on the wall shows tells all.
ZONES = ("America/New_York", "Europe/Berlin", "Europe/London", "America/Los_Angeles", "Australia/Sydney")
# The hours in which clocks change: some are missing, some come twice.
SCHEDULE = "30 1-3 * * *"


def is_due(wall: datetime) -> bool:
    """What the schedule says, of what a clock on the wall shows."""
    return wall.minute == 30 and 1 <= wall.hour <= 3


def by_brute_force(zone: ZoneInfo, begin: datetime, span: timedelta) -> list[datetime]:
    """Look at every half hour of the span; clocks change by whole ones."""
    moments = (begin + number * 30 * MINUTE for number in range(1, span // (30 * MINUTE)))
    return [moment for moment in moments if is_due(moment.astimezone(zone))]


class ShownWrites:
    """Lets the stores show at once what is on the server after a write."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self.manager: FakeManager | None = None

    async def show(self, request: Request, response: Response) -> None:
        if request.method == "GET" or response.status >= 300:
            return
        call = call_of(request.method, request.target)
        kind: Any = {"jobs": Job, "cronjobs": CronJob}[call.resource[2]]
        key = Key("default", call.name or msgspec.json.decode(request.body)["metadata"]["name"])
        assert self.manager is not None
        informer = self.manager.informer(kind)
        gone = informer.store.get(key) if call.verb == "delete" else None
        if gone is not None:
            informer.writer.apply(WatchEvent(type="DELETED", object=gone))
            return
        obj = await self._cluster.client.get(kind, key)
        informer.writer.apply(WatchEvent(type="MODIFIED", object=obj))


class Runs(Handler[Job]):
    """Notes the runs that are started, by their CronJob, and how late the latest was."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.runs: dict[str, list[datetime]] = {}
        self.latest = timedelta()

    def on_add(self, obj: Job, initial: bool) -> None:
        cron, _, minute = obj.metadata.name.rpartition("-")
        run = datetime.fromtimestamp(int(minute) * 60, UTC)
        self.runs.setdefault(cron, []).append(run)
        self.latest = max(self.latest, self._clock.now() - run)


async def live(begin: datetime, span: timedelta) -> Runs:
    clock = VirtualClock(begin)
    async with EmbeddedCluster(clock=clock, random=Random(0), runtime=None, gc=False) as cluster:
        writes, seen = ShownWrites(cluster), Runs(clock)
        transport = ObservedTransport(cluster.transport, after=writes.show)
        manager = writes.manager = FakeManager(client=Client(transport), clock=clock)
        setup(manager, Options(take_over=True))
        manager.informer(Job).add_handler(seen)
        for number, zone in enumerate(ZONES):
            spec = {"schedule": SCHEDULE, "timeZone": zone, "concurrencyPolicy": "Replace"}
            await create(Client(transport), manifest(f"c{number}", **spec))
        async with asyncio.TaskGroup() as group:
            running = group.create_task(manager.run())
            await clock.advance(span.total_seconds())
            running.cancel()
        for number in range(len(ZONES)):
            status = (await read(cluster.client, f"c{number}")).status
            assert (status.last_schedule_time, len(status.active)) == (seen.runs[f"c{number}"][-1], 1)
        assert {event.reason for event in manager.recorder("cronjob-controller").events} <= {
            "SuccessfulCreate", "SuccessfulDelete",
        }  # fmt: skip
    return seen


@pytest.mark.parametrize(
    ("begin", "span"),
    [
        pytest.param(*SPRING, id="spring", marks=pytest.mark.timeout(60)),
        pytest.param(*YEAR, id="year", marks=[pytest.mark.soak, pytest.mark.timeout(0)]),
    ],
)
def test_changing_clocks_have_exactly_their_runs(begin: datetime, span: timedelta) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        seen = runner.run(live(begin, span))
    for number, zone in enumerate(ZONES):
        assert seen.runs[f"c{number}"] == by_brute_force(ZoneInfo(zone), begin, span)
    assert seen.latest < timedelta(seconds=1)
