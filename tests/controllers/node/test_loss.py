"""The node when its Node object is deleted, and the pods that ran on it."""

import pytest

from kcr.api.conditions import find_condition
from kcr.api.core import Node as NodeObject
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.errors import BadRequestError
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import FOREVER, RunResult
from kcr_devcluster.cluster.node.node import AWAY_SECONDS
from tests.kit.node_pods import create, get, log, manifest, names, state

pytestmark = pytest.mark.kcr_virtual

NODE = "kcr-node-0"
HOLD = "example.dev/hold"


async def lose(cluster: EmbeddedCluster) -> None:
    assert cluster.node is not None
    await cluster.node.delete()


async def nodes(cluster: EmbeddedCluster) -> list[str]:
    return [node.metadata.name for node in await cluster.client.list(NodeObject)]


def runs(cluster: EmbeddedCluster, outcome: RunResult) -> None:
    assert cluster.node is not None
    cluster.node.on_run = lambda pod, container, attempt: outcome


async def test_lost_pods_fail_as_disrupted_and_go(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # api-server §30.77, §27.8.
    runs(kcr_cluster, RunResult(run_for=FOREVER))
    held = manifest("held") | {"metadata": {"name": "held", "finalizers": [HOLD]}}
    await kcr_cluster.client.create_manifest(Pod, held, "default")
    await create(kcr_cluster.client, "free")
    await kcr_clock.advance(5)
    await lose(kcr_cluster)
    await kcr_clock.advance(1)
    assert await names(kcr_cluster.client) == {"held"}
    pod = await kcr_cluster.client.get(Pod, Key("default", "held"))
    condition = find_condition(pod.status.conditions, "DisruptionTarget")
    assert condition is not None
    assert (pod.status.phase, condition.status) == ("Failed", "True")
    assert (condition.reason, condition.message) == ("DeletionByPodGC", "PodGC: node no longer exists")
    assert pod.metadata.deletion_grace_period_seconds == 0


async def test_lost_pod_that_had_ended_keeps_its_end(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    held = manifest("held") | {"metadata": {"name": "held", "finalizers": [HOLD]}}
    runs(kcr_cluster, RunResult(run_for=1))
    await kcr_cluster.client.create_manifest(Pod, held, "default")
    await kcr_clock.advance(5)
    await lose(kcr_cluster)
    await kcr_clock.advance(1)
    pod = await kcr_cluster.client.get(Pod, Key("default", "held"))
    assert pod.metadata.deletion_timestamp is not None
    assert (pod.status.phase, find_condition(pod.status.conditions, "DisruptionTarget")) == ("Succeeded", None)


async def test_lost_node_comes_back_and_runs_what_waits(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await kcr_clock.advance(1)
    await lose(kcr_cluster)
    await kcr_clock.advance(1)
    await create(kcr_cluster.client, "late")
    await kcr_clock.advance(AWAY_SECONDS - 2)
    assert await nodes(kcr_cluster) == []
    assert not (await get(kcr_cluster.client, "late")).spec.node_name
    await kcr_clock.advance(2)
    assert await nodes(kcr_cluster) == [NODE]
    assert (await get(kcr_cluster.client, "late")).spec.node_name == NODE


async def test_nothing_of_a_lost_pod_runs_on(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    held = manifest("held") | {"metadata": {"name": "held", "finalizers": [HOLD]}}
    runs(kcr_cluster, RunResult(run_for=5, logs="soon\n"))
    await kcr_cluster.client.create_manifest(Pod, held, "default")
    await kcr_clock.advance(1)
    await lose(kcr_cluster)
    await kcr_clock.advance(2 * AWAY_SECONDS)
    pod = await get(kcr_cluster.client, "held")
    assert (pod.status.phase, state(pod)) == ("Failed", "running")  # no kubelet was left to write how it ended
    with pytest.raises(BadRequestError):
        await log(kcr_cluster.client, "held")
