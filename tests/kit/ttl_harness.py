"""The TTL controller on an embedded cluster, and a witness of what goes in which order."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.client import Client, Transport
from kcr.clock import Clock
from kcr.cluster import EmbeddedCluster
from kcr.controllers.job import controller as job
from kcr.controllers.job.ttl import Options, setup
from kcr.informer import Handler, Informer
from kcr.manager import Manager


@asynccontextmanager
async def ttl_controller(
    cluster: EmbeddedCluster, clock: Clock, *, transport: Transport | None = None, with_jobs: bool = False
) -> AsyncIterator[Manager]:
    """Run the controller, and the Job controller in the same process if so wished, for as long as the context lives."""
    manager = Manager(Client(transport or cluster.transport), clock=clock, random=Random(1))
    setup(manager, Options(take_over=True))
    if with_jobs:
        job.setup(manager, job.Options(take_over=True))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(manager.run())
        try:
            await manager.wait_ready()
            yield manager
        finally:
            running.cancel()


class Departures(Handler[Any]):
    """At which version what has gone; the finalizers that Jobs had on their way; and the last there was of each."""

    def __init__(self) -> None:
        self.gone: list[tuple[int, str]] = []
        self.finalizers: set[str] = set()
        self.jobs: list[Job] = []

    def on_add(self, obj: Any, initial: bool) -> None:
        """Nothing has gone."""

    def on_update(self, old: Any, new: Any) -> None:
        if isinstance(new, Job) and new.metadata.deletion_timestamp is not None:
            self.finalizers |= set(new.metadata.finalizers)

    def on_delete(self, obj: Any, final_state_unknown: bool) -> None:
        self.gone.append((int(obj.metadata.resource_version), type(obj).__name__))
        if isinstance(obj, Job):
            self.jobs.append(obj)


@asynccontextmanager
async def departures_from(cluster: EmbeddedCluster) -> AsyncIterator[Departures]:
    """Watch what goes, through watches of its own, for as long as the context lives."""
    departures = Departures()
    async with asyncio.TaskGroup() as group:
        tasks = []
        for kind in (Job, Pod):
            informer: Informer[Any] = Informer(cluster.client, kind, random=Random(9))
            informer.add_handler(departures)
            tasks.append(group.create_task(informer.run()))
            await informer.wait_synced()
        yield departures
        for task in tasks:
            task.cancel()
