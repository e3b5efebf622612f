"""Pods find nodes, wait for room, and make room for others."""

from typing import Any

import pytest

from kcr.api.core import Node, Pod
from kcr.api.meta import Key
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import FOREVER, RunResult
from kcr_devcluster.cluster.scheduling.objects import ScheduledPod
from tests.kit.node_pods import create, delete, events, get, manifest, names
from tests.kit.scheduling import add_priority_class, change_node, node_of, schedule, why_unscheduled

pytestmark = pytest.mark.kcr_virtual

NODE = "kcr-node-0"
FULL = (
    "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
    "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
)


async def test_pod_larger_than_any_node_stays_pending(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await kcr_clock.advance(1)
    await schedule(cluster.client, "large", cpu="1000")
    await kcr_clock.advance(600)
    message = (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    assert await why_unscheduled(cluster.client, "large") == message
    assert await events(cluster.client, "large") == [("FailedScheduling", 1, message)]


@pytest.mark.parametrize("how", ["deleted", "ended"])
async def test_pod_waits_until_another_has_left(cluster: EmbeddedCluster, kcr_clock: VirtualClock, how: str) -> None:
    await kcr_clock.advance(1)
    first = await schedule(cluster.client, "first", cpu="40")
    await kcr_clock.advance(1)
    await schedule(cluster.client, "second", cpu="40")
    await kcr_clock.advance(60)
    assert await node_of(cluster.client, "first") == NODE
    assert await why_unscheduled(cluster.client, "second") == FULL
    if how == "deleted":
        await delete(cluster.client, "first")
    else:
        patch = {"status": {"phase": "Succeeded"}}
        await cluster.client.strategic_patch(Pod, first.key, patch, subresource="status")
    await kcr_clock.advance(1)
    assert await node_of(cluster.client, "second") == NODE
    assert await why_unscheduled(cluster.client, "second") == ""


async def test_node_is_filled_and_never_overfilled(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await kcr_clock.advance(1)
    for number in range(20):
        await schedule(cluster.client, f"p{number}", cpu="10")
    await kcr_clock.advance(1)
    placed = [name for name in await names(cluster.client) if await node_of(cluster.client, name)]
    assert len(placed) == 6
    for name in placed:
        await delete(cluster.client, name)
    await kcr_clock.advance(1)
    assert len([name for name in await names(cluster.client) if await node_of(cluster.client, name)]) == 6


async def test_plain_pods_that_run_already_are_counted(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    """The pods of a node are watched from the first that asks for something on; those before it count too."""
    await kcr_clock.advance(1)
    await create(cluster.client, "plain", overhead=None)
    await kcr_clock.advance(1)
    await change_node(cluster.client, NODE, {"allocatable": {"pods": "2"}}, status=True)
    await schedule(cluster.client, "a")
    await kcr_clock.advance(1)
    await create(cluster.client, "b")
    await kcr_clock.advance(1)
    assert [await node_of(cluster.client, name) for name in ("plain", "a", "b")] == [NODE, NODE, ""]
    assert (await why_unscheduled(cluster.client, "b")).startswith("0/1 nodes are available: 1 Too many pods.")


@pytest.mark.parametrize(
    ("change", "status"),
    [
        pytest.param({"allocatable": {"cpu": "200"}}, True, id="more-room"),
        pytest.param({"taints": None}, False, id="taint-removed"),
    ],
)
async def test_pod_is_tried_again_when_a_node_changes(
    cluster: EmbeddedCluster, kcr_clock: VirtualClock, change: dict[str, Any], status: bool
) -> None:
    await kcr_clock.advance(1)
    await change_node(cluster.client, NODE, {"taints": [{"key": "a", "effect": "NoSchedule"}]} if not status else {})
    await schedule(cluster.client, "p", cpu="100" if status else "1")
    await kcr_clock.advance(30)
    assert await node_of(cluster.client, "p") == ""
    await change_node(cluster.client, NODE, change, status=status)
    await kcr_clock.advance(1)
    assert await node_of(cluster.client, "p") == NODE


async def test_waiting_pods_go_by_priority_then_age(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await kcr_clock.advance(1)
    await add_priority_class(cluster.client, "high", 10, preemptionPolicy="Never")
    await schedule(cluster.client, "first", cpu="40")
    await kcr_clock.advance(1)
    for name, spec in (("older", {}), ("newer", {}), ("high", {"priorityClassName": "high"})):
        await schedule(cluster.client, name, cpu="40", **spec)
        await kcr_clock.advance(1)
    order = []
    for name in ("first", "high", "older"):
        await delete(cluster.client, name)
        await kcr_clock.advance(40)
        order += [other for other in await names(cluster.client) if await node_of(cluster.client, other)]
    assert order == ["high", "older", "newer"]


async def test_pod_of_higher_priority_takes_the_place_of_others(
    cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    # kubernetes/pkg/scheduler/framework/preemption/preemption.go
    await kcr_clock.advance(1)
    await add_priority_class(cluster.client, "high", 1000)
    for name in ("low-0", "low-1"):
        made = await schedule(cluster.client, name, cpu="30")
        stop = {"metadata": {"finalizers": ["example.dev/hold"], "uid": made.metadata.uid}}
        await cluster.client.merge_patch(Pod, made.key, stop)
        await kcr_clock.advance(2)
    high = await schedule(cluster.client, "high", cpu="30", priorityClassName="high")
    await kcr_clock.advance(1)
    victim = await cluster.client.get(Pod, Key("default", "low-1"))
    assert victim.metadata.deletion_timestamp is not None
    assert (await get(cluster.client, "low-0")).metadata.deletion_timestamp is None
    condition = next(one for one in victim.status.conditions if one.type == "DisruptionTarget")
    assert (condition.status, condition.reason) == ("True", "PreemptionByScheduler")
    assert condition.message == "default-scheduler: preempting to accommodate a higher priority pod"
    assert ("Preempted", 1, f"Preempted by pod {high.metadata.uid} on node {NODE}") in await events(
        cluster.client, "low-1"
    )
    await cluster.client.merge_patch(Pod, victim.key, {"metadata": {"finalizers": None}})
    await kcr_clock.advance(40)
    assert await node_of(cluster.client, "high") == NODE
    assert await events(cluster.client, "high") != []


async def test_pod_says_which_node_is_being_freed_for_it(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await kcr_clock.advance(1)
    await add_priority_class(cluster.client, "high", 1000)
    assert cluster.node is not None
    cluster.node.on_run = lambda pod, container, attempt: RunResult(run_for=FOREVER, ignore_sigterm=True)
    await schedule(cluster.client, "low", cpu="60")
    await kcr_clock.advance(2)
    await schedule(cluster.client, "high", cpu="60", priorityClassName="high")
    await kcr_clock.advance(1)
    status = (await cluster.client.request("GET", "/api/v1/namespaces/default/pods/high")).decode()
    assert f'"nominatedNodeName":"{NODE}"' in status
    assert await why_unscheduled(cluster.client, "high") == "0/1 nodes are available: 1 Insufficient cpu."
    # What becomes free is not for others.
    await schedule(cluster.client, "lesser", cpu="10")
    await kcr_clock.advance(35)
    assert await node_of(cluster.client, "high") == NODE
    assert await names(cluster.client) == {"high", "lesser"}
    assert await node_of(cluster.client, "lesser") == ""


async def test_nominated_pod_is_tried_although_an_equal_one_was_rejected(
    cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await kcr_clock.advance(1)
    await schedule(cluster.client, "large", cpu="60")
    await kcr_clock.advance(1)
    for name in ("older", "nominated"):
        made = await schedule(cluster.client, name, cpu="60")
        await kcr_clock.advance(1)
    patch = {"status": {"nominatedNodeName": NODE}}
    await cluster.client.strategic_patch(Pod, made.key, patch, subresource="status")
    await kcr_clock.advance(1)
    await delete(cluster.client, "large")
    await kcr_clock.advance(40)
    assert [await node_of(cluster.client, name) for name in ("older", "nominated")] == ["", NODE]


async def test_nominations_for_other_nodes_are_kept(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, nodes=2) as cluster:
        await kcr_clock.advance(1)
        first, second = sorted(cluster.nodes)
        for node in cluster.nodes.values():
            node.on_run = lambda pod, container, attempt: RunResult(run_for=FOREVER, ignore_sigterm=True)
        for name, value in (("middle", 10), ("high", 1000)):
            await add_priority_class(cluster.client, name, value)
        for number, node_name in enumerate((first, second)):
            chosen = {"kubernetes.io/hostname": node_name}
            await schedule(cluster.client, f"low-{number}", cpu="60", nodeSelector=chosen)
        await kcr_clock.advance(2)
        for name, node_name in (("middle", first), ("high", second)):
            chosen = {"kubernetes.io/hostname": node_name}
            await schedule(cluster.client, name, cpu="60", priorityClassName=name, nodeSelector=chosen)
            await kcr_clock.advance(1)
            if name == "middle":
                before = await cluster.client.get(ScheduledPod, Key("default", "middle"))
                assert before.status.nominated_node_name == first
        high = await cluster.client.get(ScheduledPod, Key("default", "high"))
        assert high.status.nominated_node_name == second
        assert await cluster.client.get(ScheduledPod, Key("default", "middle")) == before


async def test_pod_that_never_preempts_waits(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await kcr_clock.advance(1)
    await add_priority_class(cluster.client, "patient", 1000, preemptionPolicy="Never")
    await schedule(cluster.client, "low", cpu="60")
    await kcr_clock.advance(1)
    await schedule(cluster.client, "patient", cpu="60", priorityClassName="patient")
    await kcr_clock.advance(60)
    assert await node_of(cluster.client, "low") == NODE
    assert (await why_unscheduled(cluster.client, "patient")).endswith(
        "preemption: not eligible due to preemptionPolicy=Never."
    )


async def test_pods_are_spread_over_several_nodes(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, nodes=3) as cluster:
        await kcr_clock.advance(1)
        made = {node.metadata.name: node for node in await cluster.client.list(Node)}
        assert list(made) == ["kcr-node-0", "kcr-node-1", "kcr-node-2"]
        for number in range(6):
            await create(cluster.client, f"p{number}")
        await create(cluster.client, "picky", nodeSelector={"kubernetes.io/hostname": "kcr-node-2"})
        await kcr_clock.advance(2)
        placed = [await node_of(cluster.client, f"p{number}") for number in range(6)]
        assert sorted(placed) == [f"kcr-node-{number}" for number in (0, 0, 1, 1, 2, 2)]
        assert await node_of(cluster.client, "picky") == "kcr-node-2"
        addresses = [(await get(cluster.client, f"p{number}")).status.pod_ip for number in range(6)]
        assert len(set(addresses)) == 6


async def test_pods_that_wait_for_others_follow_them(kcr_clock: VirtualClock) -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    required: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    near: dict[str, Any] = {"affinity": {"podAffinity": required}}
    far: dict[str, Any] = {"affinity": {"podAntiAffinity": required}}
    async with EmbeddedCluster(clock=kcr_clock, nodes=2) as cluster:
        await kcr_clock.advance(1)
        await create(cluster.client, "follower", **near)
        await kcr_clock.advance(30)
        assert (await why_unscheduled(cluster.client, "follower")).startswith(
            "0/2 nodes are available: 2 node(s) didn't match pod affinity rules."
        )
        for name in ("a", "b", "c"):
            body = manifest(name, **far)
            body["metadata"] = {"name": name, "labels": {"app": "web"}}
            await cluster.client.create_manifest(Pod, body, "default")
            await kcr_clock.advance(2)
        places = [await node_of(cluster.client, name) for name in ("a", "b", "c")]
        assert sorted(places) == ["", "kcr-node-0", "kcr-node-1"]
        assert await node_of(cluster.client, "follower") in places
        await delete(cluster.client, "a")
        await kcr_clock.advance(40)
        assert await node_of(cluster.client, "c") == places[0]
