"""Fixtures for tests in virtual time."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from kcr.testing.clock import VirtualClock
from kcr.testing.loop import VirtualLoop

if TYPE_CHECKING:
    from kcr.embedded import EmbeddedCluster


@pytest_asyncio.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    """Give the virtual clock of the test; at the end no task may be left, and no stored object changed."""
    from kcr.testing.mutation import unchanged_stores  # noqa: PLC0415  # brings the HTTP client

    clock = VirtualClock()
    with unchanged_stores():
        yield clock
    loop = asyncio.get_running_loop()
    if isinstance(loop, VirtualLoop) and not loop.stalled:
        await clock.settle()
        left = sorted(task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task())
        if left:
            pytest.fail(f"tasks left behind: {', '.join(left)}")


@pytest_asyncio.fixture
async def cluster(clock: VirtualClock) -> AsyncIterator["EmbeddedCluster"]:
    """Give an embedded cluster whose node simulates its pods, in virtual time and with a fixed seed."""
    from kcr.embedded import EmbeddedCluster  # noqa: PLC0415  # most tests need no cluster

    async with EmbeddedCluster(clock=clock, random=random.Random(0), runtime="simulated") as cluster:
        yield cluster
