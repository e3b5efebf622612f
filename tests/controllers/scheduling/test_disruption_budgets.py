"""PodDisruptionBudgets on the embedded cluster: their status, evictions within them, and preemption.

Source: kubernetes/pkg/controller/disruption/disruption_test.go, test/integration/evictions/evictions_test.go.
"""

from typing import Any

import pytest

from kcr.api import codec
from kcr.api.apps import Deployment, ReplicaSet
from kcr.api.core import Pod
from kcr.api.full.policy_v1 import PodDisruptionBudget
from kcr.api.meta import Key
from kcr.errors import TooManyRequestsError
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node.pods import KubeletPod
from tests.kit.node_pods import events
from tests.kit.scheduling import add_priority_class, requesting, schedule
from tests.kit.workloads import LABELS, deployment

pytestmark = pytest.mark.kcr_virtual

KEY = Key("default", "budget")


async def protect(cluster: EmbeddedCluster, labels: dict[str, str] = LABELS, **spec: Any) -> None:
    """Create a budget."""
    manifest = {"metadata": {"name": KEY.name}, "spec": {"selector": {"matchLabels": labels}, **spec}}
    await cluster.client.create_manifest(PodDisruptionBudget, manifest, KEY.namespace)


async def numbers(cluster: EmbeddedCluster) -> tuple[int | None, ...]:
    """Healthy, desired and expected pods, and the disruptions that are allowed."""
    status = (await cluster.client.get(PodDisruptionBudget, KEY)).status
    return status.current_healthy, status.desired_healthy, status.expected_pods, status.disruptions_allowed


async def running(cluster: EmbeddedCluster) -> list[Key]:
    """The pods that are not terminating."""
    return [pod.key for pod in await cluster.client.list(Pod) if pod.metadata.deletion_timestamp is None]


async def test_deployment_is_disrupted_pod_by_pod(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await cluster.client.create_manifest(Deployment, deployment(replicas=4), "default")
    await protect(cluster, maxUnavailable="25%")
    await kcr_clock.advance(5)
    assert await numbers(cluster) == (4, 3, 4, 1)
    first, second, *_ = await running(cluster)
    await cluster.client.evict(first)
    with pytest.raises(TooManyRequestsError, match="violate the pod's disruption budget"):
        await cluster.client.evict(second)
    await kcr_clock.advance(60)
    # The Deployment has replaced the pod.
    assert await numbers(cluster) == (4, 3, 4, 1)
    assert (await cluster.client.get(PodDisruptionBudget, KEY)).status.disrupted_pods == {}
    await cluster.client.evict(second)


async def test_status_follows_the_spec(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await protect(cluster, minAvailable=1)
    await kcr_clock.advance(5)
    assert await numbers(cluster) == (0, 1, 0, 0)
    assert ("NoPods", "No matching pods found") in [one[::2] for one in await events(cluster.client, KEY.name)]
    await cluster.client.create_manifest(Deployment, deployment(replicas=3), "default")
    await kcr_clock.advance(5)
    assert await numbers(cluster) == (3, 1, 3, 2)
    await cluster.client.merge_patch(PodDisruptionBudget, KEY, {"spec": {"minAvailable": "100%"}})
    await kcr_clock.advance(5)
    assert await numbers(cluster) == (3, 3, 3, 0)
    found = await cluster.client.get(PodDisruptionBudget, KEY)
    assert found.status.observed_generation == found.metadata.generation == 2


async def test_pod_that_is_not_deleted_counts_again(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await cluster.client.create_manifest(Deployment, deployment(replicas=2), "default")
    await protect(cluster, minAvailable=1)
    await kcr_clock.advance(5)
    (name, _), now = (key.name for key in await running(cluster)), kcr_clock.now()
    status = {"disruptedPods": {name: now.strftime("%Y-%m-%dT%H:%M:%SZ")}}
    await cluster.client.merge_patch(PodDisruptionBudget, KEY, {"status": status}, subresource="status")
    await kcr_clock.advance(100)
    assert await numbers(cluster) == (1, 1, 2, 0)
    await kcr_clock.advance(30)
    assert await numbers(cluster) == (2, 1, 2, 1)


async def test_share_of_pods_without_a_scale_is_unknown(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    job = {
        "apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "", "controller": True,
    }  # fmt: skip
    made = await cluster.client.request(
        "POST", "/apis/batch/v1/namespaces/default/jobs",
        codec.encode({"metadata": {"name": "j"}, "spec": {"suspend": True, "template": {
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}),
    )  # fmt: skip
    job["uid"] = codec.decode(KubeletPod, made).metadata.uid
    manifest = requesting("p", "1")
    manifest["metadata"] |= {"labels": LABELS, "ownerReferences": [job]}
    await cluster.client.create_manifest(KubeletPod, manifest, "default")
    await protect(cluster, maxUnavailable=1)
    await kcr_clock.advance(5)
    (condition,) = (await cluster.client.get(PodDisruptionBudget, KEY)).status.conditions
    assert (condition.status, condition.reason) == ("False", "SyncFailed")
    assert condition.message == "jobs.batch does not implement the scale subresource"


async def test_successor_of_a_replica_set_is_not_its_pods_controller(
    cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await cluster.client.create_manifest(Deployment, deployment(replicas=4), "default")
    await protect(cluster, {"app": "left"}, maxUnavailable=1)
    await kcr_clock.advance(1)
    (successor,) = await cluster.client.list(ReplicaSet)
    manifest, owner = requesting("p", "1"), {"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}
    owner |= {"name": successor.metadata.name, "uid": "of its predecessor"}
    manifest["metadata"] |= {"labels": {"app": "left"}, "ownerReferences": [owner]}
    await cluster.client.create_manifest(KubeletPod, manifest, "default")
    await kcr_clock.advance(1)
    # The status has changed since: the garbage collector has deleted the pod.
    why = 'Failed to calculate the number of expected pods: found no controllers for pod "p"'
    assert ("CalculateExpectedPodCountFailed", why) in [one[::2] for one in await events(cluster.client, KEY.name)]


async def test_preemption_spares_pods_that_a_budget_protects(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await kcr_clock.advance(1)
    await add_priority_class(cluster.client, "high", 1000)
    # Without a budget the newer pod would be the victim.
    for name, labels in (("older", {"app": "free"}), ("newer", LABELS)):
        manifest = requesting(name, "30")
        manifest["metadata"]["labels"] = labels
        await cluster.client.create_manifest(KubeletPod, manifest, "default")
        await kcr_clock.advance(2)
    await protect(cluster, minAvailable=1)
    await kcr_clock.advance(1)
    await schedule(cluster.client, "high", cpu="30", priorityClassName="high")
    await kcr_clock.advance(60)
    assert sorted(key.name for key in await running(cluster)) == ["high", "newer"]
