"""A new leader whose caches lack what the leader before it wrote does nothing twice.

Its watches were broken or late when it took over: it has seen less than the Lease that it holds says.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.client import Client, Transport
from kcr.manager import Manager
from kcr.scopes.leaderelection import LeaderElectionConfig, LeaderElector
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.harness import create, finished, job_controller, manifest, read
from tests.kit.observers import observing_pods

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]

FOREVER = {"sim.kcr.dev/run-for": "forever"}


@asynccontextmanager
async def replica(
    cluster: EmbeddedCluster, clock: VirtualClock, name: str, transport: Transport
) -> AsyncIterator[Manager]:
    config = LeaderElectionConfig(name="job", identity=name, lease_duration=3, renew_deadline=2, retry_period=0.2)
    elector = LeaderElector(Client(cluster.transport), config, clock=clock, random=Random(name))
    async with job_controller(
        cluster, clock, transport=transport, seed=Random(name), leader_election=elector
    ) as manager:
        yield manager


@asynccontextmanager
async def taken_over(
    cluster: EmbeddedCluster, clock: VirtualClock, transport: Transport, job: dict[str, object]
) -> AsyncIterator[None]:
    """A leader creates the pods of a Job and stops; the standby with this transport leads."""
    async with asyncio.TaskGroup() as group:
        begun, over = asyncio.Event(), asyncio.Event()

        async def lead() -> None:
            async with replica(cluster, clock, "a", cluster.transport):
                begun.set()
                await over.wait()

        group.create_task(lead())
        await begun.wait()
        await clock.advance(1)
        async with replica(cluster, clock, "b", transport) as standby:
            await clock.advance(1)
            await create(cluster.client, job)
            await clock.advance(0.5)
            over.set()
            assert standby.elector is not None
            await asyncio.wait_for(standby.elector.elected.wait(), 5)
            yield


@pytest.mark.parametrize(
    "seen",
    [0, *(pytest.param(seen, marks=pytest.mark.soak) for seen in (1, 2, 5))],
    ids="{}-changes-of-pods".format,
)
async def test_pods_that_the_last_leader_created_are_not_created_again(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, seen: int
) -> None:
    late = FaultyTransport(kcr_cluster.transport)
    # The end of the initial events comes, and of Jobs the new one.
    late.on("watch", Pod, nth=1).freeze(after=1 + seen)
    late.on("watch", Job, nth=1).freeze(after=2)
    async with observing_pods(kcr_cluster) as pods:
        job = manifest(parallelism=3, completions=3, annotations=FOREVER)
        async with taken_over(kcr_cluster, kcr_clock, late, job):
            await kcr_clock.advance(60)
        assert len(pods.all) == 3


@pytest.mark.soak
async def test_job_that_the_last_leader_finished_is_not_run_again(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    late = FaultyTransport(kcr_cluster.transport)
    late.on("watch", Pod, nth=1).freeze(after=1)
    late.on("watch", Job, nth=1).freeze(after=2)
    async with observing_pods(kcr_cluster) as pods:
        async with taken_over(kcr_cluster, kcr_clock, late, manifest(completions=2)):
            await kcr_clock.advance(60)
        assert (await finished(kcr_cluster.client)).status.succeeded == 2
        assert len(pods.all) == 2


@pytest.mark.soak
async def test_pod_that_ends_before_its_job_is_seen_is_counted(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    late = FaultyTransport(kcr_cluster.transport)
    # The end of the initial events comes, and no Job.
    late.on("watch", Job, nth=1).freeze(after=1)
    job = manifest(backoffLimit=0, annotations=FOREVER)
    async with observing_pods(kcr_cluster) as pods, taken_over(kcr_cluster, kcr_clock, late, job):
        (pod,) = await kcr_cluster.client.list(Pod, "default")
        await kcr_cluster.client.delete(Pod, pod.key)
        await kcr_clock.advance(60)
        assert (await finished(kcr_cluster.client)).status.failed == 1
        assert len(pods.all) == 1


async def test_pod_is_released_when_its_unseen_job_is_deleted(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    late = FaultyTransport(kcr_cluster.transport)
    late.on("watch", Job, nth=1).freeze(after=1)
    client = kcr_cluster.client
    async with taken_over(kcr_cluster, kcr_clock, late, manifest(annotations=FOREVER)):
        (pod,) = await client.list(Pod, "default")
        await client.delete(Pod, pod.key)
        await kcr_clock.advance(1)
        await client.delete(Job, (await read(client)).key, propagation="Background")
        await kcr_clock.advance(50)
        assert await client.list(Pod, "default") == ()
