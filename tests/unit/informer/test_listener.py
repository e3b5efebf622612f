import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from kcr.informer.buffers import Block, Buffer, Policy
from kcr.informer.listener import Listener, buffer_for
from kcr.testing import VirtualClock
from tests.unit.informer.pods import AsyncTold, Pod, pod

pytestmark = pytest.mark.virtual


@asynccontextmanager
async def listening(handler: AsyncTold, size: int = 100) -> AsyncIterator[tuple[Listener[Pod], list[str]]]:
    failures: list[str] = []
    listener = Listener(handler, Block(size), lambda: failures.append("failed"))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(listener.run())
        yield listener, failures
        task.cancel()


# IN-4, IN-10
async def test_handler_is_told_in_order_and_never_twice_at_a_time(clock: VirtualClock) -> None:
    handler = AsyncTold(seconds=5)
    async with listening(handler) as (listener, _):
        listener.on_add(pod("a", 1), True)
        listener.on_update(pod("a", 1), pod("a", 2))
        listener.on_delete(pod("a", 3))
        listener.on_vanish(pod("b", 4))
        assert handler.heard == []
        await clock.advance(20)
    assert handler.heard == ["add a 1 initial", "update a 1-2", "delete a 3", "vanish b 4"]


# IN-7
async def test_listener_is_synced_once_the_handler_has_finished(clock: VirtualClock) -> None:
    async with listening(AsyncTold(seconds=5)) as (listener, _):
        listener.on_add(pod("a", 1), True)
        listener.told_initial()
        await clock.advance(4)
        assert not listener.synced.is_set()
        await clock.advance(1)
        assert listener.synced.is_set()


# IN-9
async def test_failing_call_is_counted_and_the_next_one_made(clock: VirtualClock) -> None:
    handler = AsyncTold()
    async with listening(handler) as (listener, failures):
        listener.on_add(pod("a", 1), True)
        listener.on_add(pod("a", 1), True)
        listener.on_delete(pod("a", 2))
        await clock.settle()
    assert failures == ["failed"]
    assert handler.heard == ["add a 1 initial", "delete a 2"]


# IN-12
async def test_full_buffer_makes_wait_and_names_the_slow_handler(clock: VirtualClock) -> None:
    async with listening(AsyncTold(seconds=5), size=2) as (listener, _):
        await clock.settle()
        for name in "ab":
            listener.on_add(pod(name), True)
        assert listener.is_full
        await listener.room()
        for name in "cd":
            listener.on_add(pod(name), True)
        with capture_logs() as logs:
            await listener.room()
        assert asyncio.get_running_loop().time() == 10
    assert [line["handler"] for line in logs] == ["AsyncTold"]


# IN-13
async def test_closed_listener_ends_its_last_call_and_makes_no_other(clock: VirtualClock) -> None:
    handler = AsyncTold(seconds=5)
    async with listening(handler) as (listener, _):
        for name in "ab":
            listener.on_add(pod(name), True)
        await clock.advance(1)
        listener.close()
        assert not listener.ended.is_set()
        await listener.ended.wait()
    assert asyncio.get_running_loop().time() == 5
    assert handler.heard == ["add a 1 initial"]


@pytest.mark.parametrize(("policy", "full"), [("block", True), ("coalesce", False), ("resnapshot", False)])
async def test_only_the_blocking_policy_makes_the_informer_wait(policy: Policy, full: bool) -> None:
    buffer: Buffer[Pod] = buffer_for(policy, tuple, 0)
    assert buffer.is_full == full
