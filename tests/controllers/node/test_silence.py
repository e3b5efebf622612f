"""Nodes that fall silent, and the pods that run there.

Source: kubernetes/pkg/controller/nodelifecycle/node_lifecycle_controller.go; pkg/controller/tainteviction.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from kcr.api.batch import Job
from kcr.api.conditions import find_condition
from kcr.api.coordination import Lease
from kcr.api.core import Node, Pod
from kcr.api.meta import Key
from kcr.errors import NotFoundError
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import FOREVER, RunResult
from tests.kit.node_pods import create, events, get, manifest, names, state
from tests.kit.scheduling import change_node, node_of

pytestmark = pytest.mark.kcr_virtual

FIRST, SECOND = "kcr-node-0", "kcr-node-1"
ON_SECOND: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": SECOND}}


@pytest_asyncio.fixture
async def cluster(kcr_clock: VirtualClock) -> AsyncIterator[EmbeddedCluster]:
    """A cluster of two nodes whose pods run until they are deleted."""

    def outcome(*_: Any) -> RunResult:
        return RunResult(run_for=FOREVER)

    async with EmbeddedCluster(clock=kcr_clock, nodes=2, on_run=outcome) as made:
        await kcr_clock.advance(1)
        yield made


async def ready(cluster: EmbeddedCluster, name: str = SECOND) -> tuple[str, str, str]:
    node = await cluster.client.get(Node, Key("", name))
    condition = find_condition(node.status.conditions, "Ready")
    assert condition is not None
    return condition.status, condition.reason, condition.message


async def taints(cluster: EmbeddedCluster, name: str = SECOND) -> set[tuple[str, str]]:
    node = await cluster.client.request("GET", f"/api/v1/nodes/{name}")
    return {(one["key"], one["effect"]) for one in msgspec.json.decode(node)["spec"].get("taints", ())}


async def test_silent_node_is_unknown_after_the_grace_period(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await create(cluster.client, "p", **ON_SECOND)
    await kcr_clock.advance(2)
    cluster.nodes[SECOND].silence()
    await kcr_clock.advance(45)
    assert (await ready(cluster))[0] == "True"
    await kcr_clock.advance(10)
    assert await ready(cluster) == ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
    key = "node.kubernetes.io/unreachable"
    assert await taints(cluster) == {(key, "NoSchedule"), (key, "NoExecute")}
    assert (await ready(cluster, FIRST))[0] == "True"
    assert ("NodeNotReady", 1, "Node is not ready") in await events(cluster.client, "p")
    pod = await get(cluster.client, "p")
    assert find_condition(pod.status.conditions, "Ready").status == "False"  # type: ignore[union-attr]  # it is there


async def test_nodes_that_are_alive_renew_their_leases(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    key = Key("kube-node-lease", FIRST)
    with pytest.raises(NotFoundError):
        await cluster.client.get(Lease, key)
    cluster.nodes[SECOND].silence()
    await kcr_clock.advance(100)
    lease = await cluster.client.get(Lease, key)
    assert lease.spec.renew_time is not None
    assert (kcr_clock.now() - lease.spec.renew_time).total_seconds() <= 10
    assert (lease.spec.holder_identity, lease.spec.lease_duration_seconds) == (FIRST, 40)
    assert (await ready(cluster, FIRST))[0] == "True"


async def test_pods_of_a_silent_node_are_evicted_and_end_when_it_is_back(
    cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await create(cluster.client, "p", **ON_SECOND)
    await create(cluster.client, "patient", **ON_SECOND, tolerations=[{"operator": "Exists"}])
    await kcr_clock.advance(2)
    cluster.nodes[SECOND].silence()
    await kcr_clock.advance(340)
    assert (await get(cluster.client, "p")).metadata.deletion_timestamp is None
    await kcr_clock.advance(20)
    pod = await get(cluster.client, "p")
    assert pod.metadata.deletion_timestamp is not None
    condition = find_condition(pod.status.conditions, "DisruptionTarget")
    assert condition is not None
    assert (condition.reason, condition.message) == (
        "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint",
    )  # fmt: skip
    assert ("TaintManagerEviction", 1, "Marking for deletion Pod default/p") in await events(cluster.client, "p")
    await kcr_clock.advance(600)
    assert await names(cluster.client) == {"p", "patient"}
    cluster.nodes[SECOND].resume()
    await kcr_clock.advance(60)
    assert await names(cluster.client) == {"patient"}
    assert (await ready(cluster))[:2] == ("True", "KubeletReady")
    assert await taints(cluster) == set()
    assert state(await get(cluster.client, "patient")) == "running"


async def test_short_silence_evicts_nothing(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await create(cluster.client, "p", **ON_SECOND)
    await kcr_clock.advance(2)
    cluster.nodes[SECOND].silence()
    await kcr_clock.advance(200)
    cluster.nodes[SECOND].resume()
    await kcr_clock.advance(600)
    pod = await get(cluster.client, "p")
    assert pod.metadata.deletion_timestamp is None
    assert find_condition(pod.status.conditions, "Ready").status == "True"  # type: ignore[union-attr]  # it is there


async def test_no_pod_goes_to_a_silent_node(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    cluster.nodes[SECOND].silence()
    await kcr_clock.advance(60)
    for number in range(4):
        await create(cluster.client, f"p{number}")
    await kcr_clock.advance(2)
    assert {await node_of(cluster.client, f"p{number}") for number in range(4)} == {FIRST}


async def test_containers_of_a_lost_machine_are_gone_when_it_is_back(
    cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await create(cluster.client, "p", **ON_SECOND)
    await kcr_clock.advance(2)
    cluster.nodes[SECOND].lose()
    await kcr_clock.advance(60)
    assert (await ready(cluster))[0] == "Unknown"
    assert state(await get(cluster.client, "p")) == "running"  # no kubelet was left to update it
    cluster.nodes[SECOND].resume()
    await kcr_clock.advance(10)
    assert (await ready(cluster))[0] == "True"
    assert state(await get(cluster.client, "p")) == "ContainerStatusUnknown 137"


async def test_pods_of_a_deleted_silent_node_are_replaced(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await create(cluster.client, "p", **ON_SECOND)
    await kcr_clock.advance(2)
    cluster.nodes[SECOND].silence()
    await kcr_clock.advance(5)
    await cluster.client.delete(Node, Key("", SECOND))
    await kcr_clock.advance(1)
    assert await names(cluster.client) == set()
    cluster.nodes[SECOND].resume()
    await kcr_clock.advance(30)
    assert (await ready(cluster))[0] == "True"


async def test_taint_that_evicts_spares_those_that_tolerate_it(
    cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    for name, tolerations in (
        ("plain", []),
        ("short", [{"key": "gone", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 20}]),
        ("long", [{"key": "gone", "operator": "Exists"}]),
    ):
        await create(cluster.client, name, grace=0, **ON_SECOND, tolerations=tolerations)
    await kcr_clock.advance(2)
    await change_node(cluster.client, SECOND, {"taints": [{"key": "gone", "effect": "NoExecute"}]})
    await kcr_clock.advance(5)
    assert await names(cluster.client) == {"short", "long"}
    late = [{"key": "gone", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]
    await create(cluster.client, "late", grace=0, **ON_SECOND, tolerations=late)
    await kcr_clock.advance(4)
    assert await names(cluster.client) == {"short", "long", "late"}
    await kcr_clock.advance(20)
    assert await names(cluster.client) == {"long"}


async def test_cordoned_node_has_the_taint_of_it(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await change_node(cluster.client, SECOND, {"unschedulable": True})
    await kcr_clock.advance(1)
    assert await taints(cluster) == {("node.kubernetes.io/unschedulable", "NoSchedule")}
    await change_node(cluster.client, SECOND, {"unschedulable": None})
    await kcr_clock.advance(1)
    assert await taints(cluster) == set()


@pytest.mark.kcr_cluster(controllers=["job"])
async def test_evicted_pods_do_not_count_against_their_job(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    """As pod failure policies have it: what was disrupted is made anew."""
    assert kcr_cluster.node is not None
    kcr_cluster.node.on_run = lambda pod, container, attempt: RunResult(run_for=FOREVER)
    await kcr_clock.advance(1)
    template = manifest("t")["spec"]
    policy = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
    job = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default"},
        "spec": {"backoffLimit": 0, "podFailurePolicy": policy, "template": {"spec": template}},
    }  # fmt: skip
    await kcr_cluster.client.create_manifest(Job, job, "default")
    await kcr_clock.advance(5)
    (before,) = await kcr_cluster.client.list(Pod)
    await change_node(kcr_cluster.client, FIRST, {"taints": [{"key": "gone", "effect": "NoExecute"}]})
    await kcr_clock.advance(60)
    await change_node(kcr_cluster.client, FIRST, {"taints": None})
    await kcr_clock.advance(60)
    (after,) = await kcr_cluster.client.list(Pod)
    assert (after.metadata.uid != before.metadata.uid, after.status.phase) == (True, "Running")
    assert (await kcr_cluster.client.get(Job, Key("default", "j"))).status.failed == 0


async def test_nodes_of_a_larger_cluster_before_are_found_silent(kcr_clock: VirtualClock, tmp_path: Path) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=Random(1), nodes=2, data_dir=tmp_path) as before:
        await kcr_clock.advance(1)
        assert (await ready(before))[0] == "True"
    async with EmbeddedCluster(clock=kcr_clock, random=Random(2), data_dir=tmp_path) as after:
        await kcr_clock.advance(60)
        assert (await ready(after))[0] == "Unknown"
        assert (await ready(after, FIRST))[0] == "True"
        await create(after.client, "p")
        await kcr_clock.advance(2)
        assert await node_of(after.client, "p") == FIRST
