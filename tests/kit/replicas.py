"""Several replicas of a program in one test."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from kcr.manager import Manager


class Replica(Protocol):
    """A process with a manager."""

    manager: Manager

    async def run(self) -> None:
        """Run the manager until cancelled."""
        ...


@asynccontextmanager
async def running(*replicas: Replica) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Run replicas for as long as the context lives, each begun when the one before it is ready."""
    async with asyncio.TaskGroup() as group:
        tasks = []
        for replica in replicas:
            tasks.append(group.create_task(replica.run()))
            await replica.manager.wait_ready()
        yield tasks
        for task in tasks:
            task.cancel()
