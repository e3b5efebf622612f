"""Pod garbage collection as a client: whose pods go, and what it survives."""

import asyncio
from random import Random

import pytest

from kcr.api.core import Node as NodeObject
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.client import Client
from kcr.embedded import EmbeddedCluster
from kcr.embedded.census import Census
from kcr.embedded.kinds import NODES, PODS
from kcr.embedded.podgc import PodCollector
from kcr.errors import ServerError
from kcr.testing import FaultyTransport, VirtualClock
from kcr.testing.faults import Verb
from tests.integration.node.pods import create, names

pytestmark = pytest.mark.virtual

NODE = Key("", "node-1")


async def lose(cluster: EmbeddedCluster) -> None:
    await cluster.client.delete(NodeObject, NODE)


async def test_pods_of_a_node_that_is_back_at_once_stay(clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=clock, random=Random(0), runtime=None) as cluster:
        await cluster.client.create_manifest(NodeObject, {"metadata": {"name": NODE.name}})
        await create(cluster.client, "a", nodeName=NODE.name)
        await clock.advance(1)
        await lose(cluster)
        await cluster.client.create_manifest(NodeObject, {"metadata": {"name": NODE.name}})
        await clock.advance(60)
        assert await names(cluster.client) == {"a"}


async def test_pods_of_a_node_never_seen_stay(clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=clock, random=Random(0), runtime=None) as cluster:
        await create(cluster.client, "a", nodeName="elsewhere")
        await clock.advance(60)
        assert await names(cluster.client) == {"a"}


@pytest.mark.parametrize("call", ["list", "patch", "delete"])
async def test_lost_pods_go_though_requests_fail(clock: VirtualClock, call: Verb) -> None:
    async with EmbeddedCluster(clock=clock, random=Random(0), runtime=None, gc=False) as cluster:
        faults = FaultyTransport(cluster.transport)
        client = Client(faults)
        census = Census(client, [NODES.type, PODS.type])
        collector = PodCollector(client, census, clock)
        await cluster.client.create_manifest(NodeObject, {"metadata": {"name": NODE.name}})
        for number in range(3):
            await create(cluster.client, f"p{number}", nodeName=NODE.name)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(census.run()), group.create_task(collector.run())]
            await clock.settle()
            faults.on(call, Pod, nth=1).fail(ServerError(500, "InternalError", "no"))
            await lose(cluster)
            await clock.advance(5)
            assert await names(cluster.client) == set()
            for task in tasks:
                task.cancel()


async def test_pod_disrupted_before_keeps_the_moment(clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=clock, random=Random(0), runtime=None) as cluster:
        await cluster.client.create_manifest(NodeObject, {"metadata": {"name": NODE.name}})
        pod = await create(cluster.client, "a", nodeName=NODE.name)
        await cluster.client.merge_patch(Pod, pod.key, {"metadata": {"finalizers": ["example.dev/hold"]}})
        await cluster.client.evict(pod.key)
        evicted = clock.now()
        await clock.advance(5)
        await lose(cluster)
        await clock.advance(1)
        (condition,) = (await cluster.client.get(Pod, "a", "default")).status.conditions
        assert (condition.reason, condition.last_transition_time) == ("DeletionByPodGC", evicted)
