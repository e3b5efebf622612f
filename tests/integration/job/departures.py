"""The TTL controller on an embedded cluster, and a witness of what goes in which order."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from controllers.job.ttl import Options, setup
from kcr.api.batch import Job
from kcr.client import Client, Transport
from kcr.clock import Clock
from kcr.embedded import EmbeddedCluster
from kcr.informer import Handler
from kcr.manager import Manager


@asynccontextmanager
async def ttl_controller(
    cluster: EmbeddedCluster, clock: Clock, *, transport: Transport | None = None
) -> AsyncIterator[Manager]:
    """Run the controller for as long as the context lives."""
    manager = Manager(Client(transport or cluster.transport), clock=clock, random=Random(1))
    manager.embedded = True
    setup(manager, Options())
    async with asyncio.TaskGroup() as group:
        running = group.create_task(manager.run())
        try:
            await manager.wait_ready()
            yield manager
        finally:
            running.cancel()


class Departures(Handler[Any]):
    """At which version what has gone; and the finalizers that Jobs had on their way."""

    def __init__(self) -> None:
        self.gone: list[tuple[int, str]] = []
        self.finalizers: set[str] = set()

    def on_add(self, obj: Any, initial: bool) -> None:
        """Nothing has gone."""

    def on_update(self, old: Any, new: Any) -> None:
        if isinstance(new, Job) and new.metadata.deletion_timestamp is not None:
            self.finalizers |= set(new.metadata.finalizers)

    def on_delete(self, obj: Any) -> None:
        self.gone.append((int(obj.metadata.resource_version), type(obj).__name__))
