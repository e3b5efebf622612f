"""Events of a key that waits for a retry: when they reconcile it, and that such a reconcile is no retry."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import kcr
from kcr.api.core import ConfigMap
from kcr.api.meta import ObjectMeta
from kcr.testing import VirtualClock
from kcr.workqueue import ItemExponential
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]

KEY = kcr.Key("default", "colors")


class Constant:
    """A limiter with one delay for all failures; it counts them."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.failures = seconds, 0

    def when(self, key: kcr.Key) -> float:
        self.failures += 1
        return self.seconds

    def retries(self, key: kcr.Key) -> int:
        return self.failures

    def forget(self, key: kcr.Key) -> None:
        self.failures = 0


class Fails:
    """Fails as long as there is an error; notes when it was called."""

    def __init__(self) -> None:
        self.error: Exception | None = kcr.KcrError("no")
        self.during: Callable[[], Awaitable[object]] | None = None
        self.times: list[float] = []
        self.began = asyncio.get_running_loop().time()

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        self.times.append(round(asyncio.get_running_loop().time() - self.began, 1))
        if self.during is not None:
            await self.during()
        if self.error is not None:
            raise self.error
        return kcr.Result()


@asynccontextmanager
async def running(
    cluster: EmbeddedCluster, clock: VirtualClock, limiter: Any, **options: Any
) -> AsyncIterator[tuple[kcr.Controller, Fails]]:
    manager, reconciler = kcr.Manager(cluster.client, clock=clock, random=random.Random(0)), Fails()
    await cluster.client.create(ConfigMap(metadata=ObjectMeta(name=KEY.name, namespace=KEY.namespace)))
    controller = manager.add_controller(
        "colors", reconciler, watches=[kcr.watch(ConfigMap)], limiter=limiter, **options
    )
    async with manager.running():
        reconciler.began = asyncio.get_running_loop().time()
        await clock.settle()
        yield controller, reconciler


async def event_each_second(clock: VirtualClock, controller: kcr.Controller, seconds: int) -> None:
    for _ in range(seconds):
        await clock.advance(0.5)
        controller.queue.add(KEY)
        await clock.advance(0.5)


async def test_events_are_no_retries(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with running(kcr_cluster, kcr_clock, Constant(60), max_retries=5) as (controller, fails):
        await event_each_second(kcr_clock, controller, 299)
        assert controller.parked == {}
        await event_each_second(kcr_clock, controller, 2)
        assert controller.parked[KEY].failures == 6
        # The retries, and between them an event each half of the delay.
        assert fails.times == [time + after for time in range(0, 300, 60) for after in (0, 0.5, 30.5)] + [300]


async def test_failures_of_events_do_not_double_the_delay(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with running(kcr_cluster, kcr_clock, ItemExponential(10, 1000)) as (controller, fails):
        await event_each_second(kcr_clock, controller, 75)
        assert [time for time in fails.times if time in (10, 30, 70)] == [10, 30, 70]
        assert controller.queue.retries(KEY) == 4


async def test_success_for_an_event_ends_the_backoff(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with running(kcr_cluster, kcr_clock, Constant(60)) as (controller, fails):
        await event_each_second(kcr_clock, controller, 1)
        fails.error = None
        await event_each_second(kcr_clock, controller, 33)
        # Half of the delay is over, and from then on each event counts, that of the same moment too.
        assert fails.times == [0, 0.5, 30.5, 30.5, 31.5, 32.5, 33.5]


async def test_change_of_the_object_counts_at_once(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with running(kcr_cluster, kcr_clock, Constant(60)) as (controller, fails):
        await event_each_second(kcr_clock, controller, 5)
        await kcr_cluster.client.merge_patch(ConfigMap, KEY, {"data": {"a": "b"}})
        await kcr_clock.advance(1)
        assert fails.times == [0, 0.5, 5]


@pytest.mark.parametrize(
    ("on_event", "times"),
    [
        (False, [0, 60]),
        (True, [0, 0.5, 30.5, 60, 60.5, 90.5]),
        ("always", [0, *(time + 0.5 for time in range(60)), 60, *(time + 0.5 for time in range(60, 119))]),
    ],
)
async def test_option_says_whether_events_count(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, on_event: Any, times: list[float]
) -> None:
    async with running(kcr_cluster, kcr_clock, Constant(60), retry_on_event=on_event) as (controller, fails):
        await event_each_second(kcr_clock, controller, 119)
        assert fails.times == times


async def test_change_during_the_reconcile_is_not_lost_without_events(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with running(kcr_cluster, kcr_clock, Constant(60), retry_on_event=False) as (_, fails):
        await kcr_clock.advance(59)
        fails.during = lambda: kcr_cluster.client.merge_patch(ConfigMap, KEY, {"data": {"a": "b"}})
        await kcr_clock.advance(2)
        assert fails.times == [0, 60, 60]


async def test_key_in_backoff_is_shown_as_such(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with running(kcr_cluster, kcr_clock, Constant(60)) as (controller, _):
        await event_each_second(kcr_clock, controller, 3)
        assert controller.queue.snapshot().is_in_backoff(KEY)
        assert controller.queue.state(KEY).delay == 27.5
