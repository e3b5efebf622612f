"""The node when its Node object is deleted, and the pods that ran on it."""

import asyncio
from random import Random

import pytest

from kcr.api.conditions import find
from kcr.api.core import Node as NodeObject
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.client import Client
from kcr.embedded import EmbeddedCluster
from kcr.embedded.census import Census
from kcr.embedded.kinds import NODES, PODS
from kcr.embedded.node import FOREVER, Outcome
from kcr.embedded.node.node import AWAY_SECONDS
from kcr.embedded.podgc import PodCollector
from kcr.errors import BadRequestError, ServerError
from kcr.testing import FaultyTransport, VirtualClock
from kcr.testing.faults import Verb
from tests.integration.node.pods import create, get, log, manifest, names, state

pytestmark = pytest.mark.virtual

NODE = Key("", "kcr-node-0")
HOLD = "example.dev/hold"


async def lose(cluster: EmbeddedCluster) -> None:
    await cluster.client.delete(NodeObject, NODE)


async def nodes(cluster: EmbeddedCluster) -> list[str]:
    return [node.metadata.name for node in await cluster.client.list(NodeObject)]


def runs(cluster: EmbeddedCluster, outcome: Outcome) -> None:
    assert cluster.node is not None
    cluster.node.on_run = lambda pod, container, attempt: outcome


async def test_lost_pods_fail_as_disrupted_and_go(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    # api-server §30.77, §27.8.
    runs(cluster, Outcome(run_for=FOREVER))
    held = manifest("held") | {"metadata": {"name": "held", "finalizers": [HOLD]}}
    await cluster.client.create_manifest(Pod, held, "default")
    await create(cluster.client, "free")
    await clock.advance(5)
    await lose(cluster)
    await clock.advance(1)
    assert await names(cluster.client) == {"held"}
    pod = await cluster.client.get(Pod, "held", "default")
    condition = find(pod.status.conditions, "DisruptionTarget")
    assert condition is not None
    assert (pod.status.phase, condition.status) == ("Failed", "True")
    assert (condition.reason, condition.message) == ("DeletionByPodGC", "PodGC: node no longer exists")
    assert pod.metadata.deletion_grace_period_seconds == 0


async def test_lost_pod_that_had_ended_keeps_its_end(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    held = manifest("held") | {"metadata": {"name": "held", "finalizers": [HOLD]}}
    runs(cluster, Outcome(run_for=1))
    await cluster.client.create_manifest(Pod, held, "default")
    await clock.advance(5)
    await lose(cluster)
    await clock.advance(1)
    pod = await cluster.client.get(Pod, "held", "default")
    assert pod.metadata.deletion_timestamp is not None
    assert (pod.status.phase, find(pod.status.conditions, "DisruptionTarget")) == ("Succeeded", None)


async def test_lost_node_comes_back_and_runs_what_waits(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    await clock.advance(1)
    await lose(cluster)
    await clock.advance(1)
    await create(cluster.client, "late")
    await clock.advance(AWAY_SECONDS - 2)
    assert await nodes(cluster) == []
    assert not (await get(cluster.client, "late")).spec.node_name
    await clock.advance(2)
    assert await nodes(cluster) == [NODE.name]
    assert (await get(cluster.client, "late")).spec.node_name == NODE.name


async def test_nothing_of_a_lost_pod_runs_on(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    held = manifest("held") | {"metadata": {"name": "held", "finalizers": [HOLD]}}
    runs(cluster, Outcome(run_for=5, logs="soon\n"))
    await cluster.client.create_manifest(Pod, held, "default")
    await clock.advance(1)
    await lose(cluster)
    await clock.advance(2 * AWAY_SECONDS)
    pod = await get(cluster.client, "held")
    assert (pod.status.phase, state(pod)) == ("Failed", "running")  # nobody was left to say how it ended
    with pytest.raises(BadRequestError):
        await log(cluster.client, "held")


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
