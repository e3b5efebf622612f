"""Pod garbage collector: whose pods go, and what it survives."""

from random import Random

import pytest

from kcr.api.core import Namespace, Pod
from kcr.api.core import Node as NodeObject
from kcr.api.meta import Key
from kcr.errors import ServerError
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.calls import Verb
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.controllers import pod_gc
from tests.kit.cluster_controllers import running_controllers
from tests.kit.node_pods import create, names

pytestmark = pytest.mark.kcr_virtual

NODE = Key("", "node-1")


async def lose(cluster: EmbeddedCluster) -> None:
    await cluster.client.delete(NodeObject, NODE)


async def test_pods_of_a_node_that_is_back_at_once_stay(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None) as cluster:
        await cluster.client.create_manifest(NodeObject, {"metadata": {"name": NODE.name}})
        await create(cluster.client, "a", nodeName=NODE.name)
        await kcr_clock.advance(1)
        await lose(cluster)
        await cluster.client.create_manifest(NodeObject, {"metadata": {"name": NODE.name}})
        await kcr_clock.advance(60)
        assert await names(cluster.client) == {"a"}


@pytest.mark.parametrize("is_bound_at_once", [True, False])
async def test_pods_of_a_node_that_never_was_fail_and_go_after_a_minute(
    kcr_clock: VirtualClock, is_bound_at_once: bool
) -> None:
    # Source: kubernetes/pkg/controller/podgc/gc_controller.go, gcOrphaned.
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0)) as cluster:
        room = Key("", "room")
        await cluster.client.create_manifest(Namespace, {"metadata": {"name": room.name}})
        spec = {"containers": [{"name": "c", "image": "i"}]}
        given = {"nodeName": "elsewhere"} if is_bound_at_once else {"schedulerName": "another"}
        manifest = {"metadata": {"name": "a", "finalizers": ["example.dev/hold"]}, "spec": {**spec, **given}}
        pod = await cluster.client.create_manifest(Pod, manifest, "room")
        if not is_bound_at_once:
            await cluster.client.bind(pod.key, "elsewhere")
        await cluster.client.delete(Namespace, room)
        await kcr_clock.advance(59)
        assert (await cluster.client.get(Pod, pod.key)).status.phase == "Pending"
        await kcr_clock.advance(2)
        lost = await cluster.client.get(Pod, pod.key)
        assert lost.status.phase == "Failed"
        assert [one.reason for one in lost.status.conditions if one.type == "DisruptionTarget"] == ["DeletionByPodGC"]
        await cluster.client.merge_patch(Pod, pod.key, {"metadata": {"finalizers": None}})
        await kcr_clock.advance(20)
        assert room.name not in {found.metadata.name for found in await cluster.client.list(Namespace)}


async def test_pods_of_a_node_that_registers_within_the_minute_stay(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0)) as cluster:
        await create(cluster.client, "a", nodeName="late")
        await kcr_clock.advance(55)
        await cluster.client.create_manifest(NodeObject, {"metadata": {"name": "late"}})
        await kcr_clock.advance(120)
        assert await names(cluster.client) == {"a"}


async def test_pods_of_a_node_never_seen_stay_where_other_clients_run_them(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None) as cluster:
        await create(cluster.client, "a", nodeName="elsewhere")
        await kcr_clock.advance(60)
        assert await names(cluster.client) == {"a"}


@pytest.mark.parametrize("call", ["list", "patch", "delete"])
async def test_lost_pods_go_though_requests_fail(kcr_clock: VirtualClock, call: Verb) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None, gc=False) as cluster:
        faults = FaultyTransport(cluster.transport)
        await cluster.client.create_manifest(NodeObject, {"metadata": {"name": NODE.name}})
        for number in range(3):
            await create(cluster.client, f"p{number}", nodeName=NODE.name)
        async with running_controllers(kcr_clock, faults, lambda manager: pod_gc.setup(manager, threshold=0)):
            faults.on(call, Pod, nth=1).fail(ServerError(500, "InternalError", "no"))
            await lose(cluster)
            await kcr_clock.advance(5)
            assert await names(cluster.client) == set()


async def test_pod_disrupted_before_keeps_the_moment(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None) as cluster:
        await cluster.client.create_manifest(NodeObject, {"metadata": {"name": NODE.name}})
        pod = await create(cluster.client, "a", nodeName=NODE.name)
        await cluster.client.merge_patch(Pod, pod.key, {"metadata": {"finalizers": ["example.dev/hold"]}})
        await cluster.client.evict(pod.key)
        evicted = kcr_clock.now()
        await kcr_clock.advance(5)
        await lose(cluster)
        await kcr_clock.advance(1)
        (condition,) = (await cluster.client.get(Pod, Key("default", "a"))).status.conditions
        assert (condition.reason, condition.last_transition_time) == ("DeletionByPodGC", evicted)


async def finish(cluster: EmbeddedCluster, name: str, phase: str = "Succeeded", reason: str = "") -> None:
    change = {"status": {"phase": phase, "reason": reason}}
    await cluster.client.merge_patch(Pod, Key("default", name), change, subresource="status")


async def test_oldest_finished_pods_beyond_the_threshold_go(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(
        clock=kcr_clock, random=Random(0), runtime=None, terminated_pod_gc_threshold=2
    ) as cluster:  # fmt: skip
        for name in ("running", "c", "b", "a"):
            await create(cluster.client, name)
            await kcr_clock.advance(1)
        await create(cluster.client, "evicted")
        for name in ("a", "b", "c"):
            await finish(cluster, name)
        await finish(cluster, "evicted", "Failed", "Evicted")
        await kcr_clock.advance(10)
        assert len(await names(cluster.client)) == 5
        await kcr_clock.advance(30)
        assert await names(cluster.client) == {"running", "b", "a"}


@pytest.mark.parametrize("threshold", [0, 3])
async def test_finished_pods_within_the_threshold_stay(kcr_clock: VirtualClock, threshold: int) -> None:
    async with EmbeddedCluster(
        clock=kcr_clock, random=Random(0), runtime=None, terminated_pod_gc_threshold=threshold
    ) as cluster:  # fmt: skip
        for name in ("a", "b", "c"):
            await create(cluster.client, name)
            await finish(cluster, name)
        await create(cluster.client, "running")
        await kcr_clock.advance(100)
        assert await names(cluster.client) == {"a", "b", "c", "running"}


async def test_finished_pods_go_though_requests_fail(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None, gc=False) as cluster:
        faults = FaultyTransport(cluster.transport)
        async with running_controllers(kcr_clock, faults, lambda manager: pod_gc.setup(manager, threshold=1)):
            faults.on("list", Pod, nth=1).fail(ServerError(500, "InternalError", "no"))
            faults.on("delete", Pod, nth=1).fail(ServerError(500, "InternalError", "no"))
            for name in ("a", "b", "c"):
                await create(cluster.client, name)
                await finish(cluster, name)
            await kcr_clock.advance(100)
            assert await names(cluster.client) == {"c"}
