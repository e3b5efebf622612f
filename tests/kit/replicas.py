"""Several replicas of a program in one test."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from random import Random
from typing import Protocol

from kcr.client import Client
from kcr.clock import Clock
from kcr.manager import Manager
from kcr.scopes.leaderelection import LeaderElectionConfig
from kcr.scopes.sharding import ShardedReplica
from kcr_devcluster.cluster import EmbeddedCluster


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


def same_loop(client: Client) -> Callable[[], AbstractAsyncContextManager[Client]]:
    """Return a `connect` for a campaign on the test's loop."""
    return lambda: nullcontext(client)


def sharded_replica(cluster: EmbeddedCluster, clock: Clock, name: str, shards: int = 8) -> ShardedReplica:
    """A replica of the program `job`, whose campaign runs on the test's loop."""
    config = LeaderElectionConfig(name="job", identity=name)
    connect = same_loop(Client(cluster.transport))
    return ShardedReplica(connect, config, shards, clock=clock, random=Random(name), on_thread=False)
