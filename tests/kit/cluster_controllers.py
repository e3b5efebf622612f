"""Controllers of the embedded cluster on a manager of the test's own, whose transport the test may disturb."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

from kcr.client import Client, Transport
from kcr.manager import Manager
from kcr.testing import VirtualClock


@asynccontextmanager
async def running_controllers(
    clock: VirtualClock, transport: Transport, *setups: Callable[[Manager], None]
) -> AsyncIterator[Manager]:
    """Run controllers against a cluster that was made without its own: `gc=False`."""
    manager = Manager(Client(transport), clock=clock, random=Random(0))
    for setup in setups:
        setup(manager)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(manager.run())
        await clock.settle()
        yield manager
        running.cancel()
