"""A new leader whose cache lacks what the leader before it recorded starts no run twice."""

import asyncio
from contextlib import AbstractAsyncContextManager
from random import Random

import pytest

from kcr.api.batch import CronJob, Job
from kcr.api.meta import Key
from kcr.client import Client, Transport
from kcr.manager import Manager
from kcr.scopes.leaderelection import LeaderElectionConfig, LeaderElector
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.cronjob_harness import at, create, cronjob_controller, manifest, names_of, until

pytestmark = pytest.mark.kcr_virtual

RUN = "hello-29671800"


def replica(
    server: EmbeddedCluster, clock: VirtualClock, name: str, transport: Transport
) -> AbstractAsyncContextManager[Manager]:
    config = LeaderElectionConfig(name="cronjob", identity=name, lease_duration=3, renew_deadline=2, retry_period=0.2)
    elector = LeaderElector(Client(server.transport), config, clock=clock, random=Random(name))
    return cronjob_controller(server, clock, transport=transport, leader_election=elector)


@pytest.mark.soak
async def test_recorded_run_whose_job_is_deleted_is_not_started_again(
    server: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    late = FaultyTransport(server.transport)
    # The initial CronJob and the end of the initial events come, and nothing after them.
    late.on("watch", CronJob, nth=1).freeze(after=2)
    await create(server.client, manifest())
    begun, over = asyncio.Event(), asyncio.Event()

    async def lead() -> None:
        async with replica(server, kcr_clock, "a", server.transport):
            begun.set()
            await over.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(lead())
        await begun.wait()
        async with replica(server, kcr_clock, "b", late) as standby:
            await until(kcr_clock, at("10:00:01"))
            assert await names_of(server.client) == [RUN]
            await server.client.delete(Job, Key("default", RUN), propagation="Background")
            over.set()
            assert standby.elector is not None
            await asyncio.wait_for(standby.elector.elected.wait(), 5)
            await until(kcr_clock, at("10:00:40"))
            assert await names_of(server.client) == []
            # It leads, and goes on with what is due next once its watch goes on.
            await until(kcr_clock, at("10:10:01"))
            assert "hello-29671810" in await names_of(server.client)
