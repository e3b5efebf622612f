import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from kcr.client import Client
from kcr.informer import Informer
from kcr.informer.registration import Resync
from kcr.informer.store import Store
from kcr.testing import VirtualClock
from tests.unit.client.scripted import Script
from tests.unit.informer.pods import AsyncTold, Pod, Told, pod, replaced

pytestmark = pytest.mark.virtual


@asynccontextmanager
async def running(*pods: Pod) -> AsyncIterator[Informer[Pod]]:
    """An informer that runs, on a server that never answers; the pods are there."""
    informer = Informer(Client(Script()), Pod, random=Random(1))
    replaced(informer.replace(pods, {}, "5"))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await asyncio.sleep(0)
        yield informer
        task.cancel()


# IN-7
async def test_handler_is_synced_when_it_has_heard_the_first_list(clock: VirtualClock) -> None:
    informer = Informer(Client(Script()), Pod)
    registration = informer.add_handler(Told())
    assert not registration.synced
    replaced(informer.replace([pod("a")], {}, "5"))
    assert registration.synced
    await registration.wait_synced()


# IN-6, IN-7
async def test_late_listener_is_synced_after_its_own_first_list(clock: VirtualClock) -> None:
    async with running(pod("a"), pod("b")) as informer:
        handler = AsyncTold(seconds=5)
        registration = informer.add_listener(handler)
        assert not registration.synced
        await registration.wait_synced()
        assert asyncio.get_running_loop().time() == 10
        assert handler.heard == ["add a 1 initial", "add b 1 initial"]


# IN-13
async def test_removed_handler_hears_nothing_more(clock: VirtualClock) -> None:
    async with running(pod("a")) as informer:
        told = Told()
        registration = informer.add_handler(told)
        registration.remove()
        replaced(informer.replace([], {}, "6"))
        assert registration.is_removed
        assert told.heard == ["add a 1 initial"]
        await registration.remove_and_wait()


# IN-13
async def test_removal_can_wait_for_the_last_call(clock: VirtualClock) -> None:
    async with running(pod("a"), pod("b")) as informer:
        handler = AsyncTold(seconds=5)
        registration = informer.add_listener(handler)
        await clock.advance(1)
        await registration.remove_and_wait()
        assert asyncio.get_running_loop().time() == 5
        assert handler.heard == ["add a 1 initial"]
        await clock.advance(60)
        assert handler.heard == ["add a 1 initial"]


# IN-16, IN-18, IN-19
async def test_resync_tells_all_objects_again_about_once_in_its_period(clock: VirtualClock) -> None:
    async with running(*(pod(f"p{number}") for number in range(250))) as informer:
        told, other = Told(), Told()
        informer.add_handler(told, resync_seconds=1000)
        informer.add_handler(other)
        await clock.advance(850)
        assert len(told.heard) == 250
        await clock.advance(250)
        assert told.heard[250:] == [f"update p{number} 1-1" for number in range(250)]
        assert len(other.heard) == 250


# IN-18
async def test_resync_spreads_the_objects_over_a_part_of_its_period(clock: VirtualClock) -> None:
    async with running(*(pod(f"p{number}") for number in range(250))) as informer:
        told = Told()
        informer.add_handler(told, resync_seconds=1000)
        await clock.run_until(lambda: len(told.heard) > 250)
        assert len(told.heard) == 350
        began = asyncio.get_running_loop().time()
        await clock.run_until(lambda: len(told.heard) == 500)
        assert 20 < asyncio.get_running_loop().time() - began < 50


# IN-16
async def test_resync_tells_what_is_there_by_then(clock: VirtualClock) -> None:
    async with running(*(pod(f"p{number}") for number in range(101))) as informer:
        told = Told()
        informer.add_handler(told, resync_seconds=1000)
        await clock.run_until(lambda: len(told.heard) > 101)
        replaced(informer.replace([pod("p0")], {}, "6"))
        told.heard.clear()
        await clock.advance(100)
        assert told.heard == []


# IN-17
@pytest.mark.parametrize("seconds", [0.5, -1])
async def test_resync_more_often_than_once_a_second_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="the shortest period is 1 s"):
        Resync(seconds, Store[Pod](), asyncio.Event(), Random(1))


# IN-17
async def test_removed_handler_is_not_resynced(clock: VirtualClock) -> None:
    async with running(pod("a")) as informer:
        told = Told()
        informer.add_handler(told, resync_seconds=10).remove()
        await clock.advance(100)
        assert told.heard == ["add a 1 initial"]
