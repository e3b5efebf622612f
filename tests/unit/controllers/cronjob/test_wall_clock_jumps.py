import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from kcr.controllers.cronjob.wall_clock import ClockWatch
from kcr.testing import VirtualClock
from tests.kit.clocks import ShiftedClock

pytestmark = pytest.mark.kcr_virtual


@asynccontextmanager
async def watched(clock: ShiftedClock) -> AsyncIterator[list[float]]:
    """Watch a clock, and give the moments at which a jump was noticed."""
    noticed: list[float] = []
    now = asyncio.get_running_loop().time
    async with asyncio.TaskGroup() as group:
        task = group.create_task(ClockWatch(clock, lambda: noticed.append(now())).run())
        yield noticed
        task.cancel()


@pytest.mark.parametrize("hours", [8, -1], ids=["the-machine-slept", "the-clock-was-set-back"])
async def test_jump_is_noticed_once_within_a_minute(kcr_clock: VirtualClock, hours: int) -> None:
    shifted = ShiftedClock(kcr_clock)
    async with watched(shifted) as noticed:
        await kcr_clock.advance(600)
        shifted.by = timedelta(hours=hours)
        await kcr_clock.advance(61)
        assert len(noticed) == 1
        await kcr_clock.advance(3600)
        assert len(noticed) == 1


async def test_clock_that_is_set_right_is_left_alone(kcr_clock: VirtualClock) -> None:
    shifted = ShiftedClock(kcr_clock)
    async with watched(shifted) as noticed:
        for number in range(100):
            shifted.by = timedelta(seconds=0.4 * (-1) ** number)
            await kcr_clock.advance(60)
        assert noticed == []


async def test_small_steps_one_way_add_up(kcr_clock: VirtualClock) -> None:
    # What a timer is late by is the sum of all steps since it was set.
    shifted = ShiftedClock(kcr_clock)
    async with watched(shifted) as noticed:
        await kcr_clock.advance(1)
        for _ in range(30):
            shifted.by += timedelta(seconds=0.4)
            await kcr_clock.advance(60)
        assert len(noticed) == 10
