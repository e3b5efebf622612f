"""ReplicationControllers on the embedded cluster, in virtual time: the controller of ReplicaSets runs them as well.

Source: kubernetes/pkg/controller/replication/conversion.go, replication_controller.go.
"""

from typing import Any

import pytest

import kcr
from kcr.api.core import Event, Pod
from kcr.api.meta import controller_of
from kcr.api.pods import is_active
from kcr.testing import VirtualClock, eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.workloads.replicasets import ReplicationController
from tests.kit.workloads import LABELS, POD

pytestmark = pytest.mark.kcr_virtual

KEY = kcr.Key("default", "web")
QUOTAS = kcr.unstructured("v1", "ResourceQuota", plural="resourcequotas")


async def create(cluster: EmbeddedCluster, replicas: int) -> ReplicationController:
    spec = {"replicas": replicas, "template": {"metadata": {"labels": LABELS}, "spec": POD}}
    return await cluster.client.create_manifest(
        ReplicationController, {"metadata": {"name": "web"}, "spec": spec}, "default"
    )


async def pods(cluster: EmbeddedCluster) -> list[Pod]:
    return [pod for pod in await cluster.client.list(Pod, "default") if is_active(pod)]


async def available(cluster: EmbeddedCluster, count: int) -> ReplicationController:
    """Wait until the status counts a number of pods, all of them available."""
    found = await cluster.client.get(ReplicationController, KEY)

    async def holds() -> bool:
        nonlocal found
        found = await cluster.client.get(ReplicationController, KEY)
        return found.status.replicas == found.status.available_replicas == count

    await eventually(holds, seconds=120)
    return found


async def test_a_hundred_pods_are_available_within_two_minutes(kcr_cluster: EmbeddedCluster) -> None:
    made = await create(kcr_cluster, 100)
    await available(kcr_cluster, 100)
    found = await pods(kcr_cluster)
    assert len(found) == 100
    owner = controller_of(found[0].metadata)
    assert owner is not None
    assert (owner.api_version, owner.kind, owner.uid) == ("v1", "ReplicationController", made.metadata.uid)
    assert found[0].metadata.name.startswith("web-")


async def test_status_and_events_are_those_of_the_kind(kcr_cluster: EmbeddedCluster) -> None:
    await create(kcr_cluster, 2)
    await available(kcr_cluster, 2)
    kind = kcr.unstructured("v1", "ReplicationController", plural="replicationcontrollers")
    status = (await kcr_cluster.client.get(kind, KEY)).get("status")
    counts = {"replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 2}
    assert status == {**counts, "observedGeneration": 1}
    events = [one for one in await kcr_cluster.client.list(Event, "default") if one.involved_object.name == "web"]
    assert {(one.involved_object.kind, one.reason, one.source.component) for one in events} == {
        ("ReplicationController", "SuccessfulCreate", "replication-controller")
    }


async def test_pods_follow_the_scale(kcr_cluster: EmbeddedCluster) -> None:
    await create(kcr_cluster, 3)
    await available(kcr_cluster, 3)
    await kcr_cluster.client.set_scale(ReplicationController, KEY, 1)
    await available(kcr_cluster, 1)
    assert len(await pods(kcr_cluster)) == 1


async def test_pods_are_released_and_adopted_by_their_labels(kcr_cluster: EmbeddedCluster) -> None:
    await create(kcr_cluster, 1)
    await available(kcr_cluster, 1)
    (pod,) = await pods(kcr_cluster)
    await kcr_cluster.client.merge_patch(Pod, pod.key, {"metadata": {"labels": {"app": "other"}}})
    await eventually(lambda: _count(kcr_cluster, 2))
    released = await kcr_cluster.client.get(Pod, pod.key)
    assert released.metadata.owner_references == ()
    await kcr_cluster.client.merge_patch(Pod, pod.key, {"metadata": {"labels": LABELS}})
    await eventually(lambda: _count(kcr_cluster, 1))


async def _count(cluster: EmbeddedCluster, count: int) -> bool:
    return len(await pods(cluster)) == count


@pytest.mark.parametrize(("policy", "count"), [("Background", 0), ("Foreground", 0), ("Orphan", 2)])
async def test_deletion_takes_the_pods_along_unless_it_orphans_them(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, policy: Any, count: int
) -> None:
    await create(kcr_cluster, 2)
    await available(kcr_cluster, 2)
    await kcr_cluster.client.delete(ReplicationController, KEY, propagation=policy)
    await kcr_clock.advance(60)
    left = await pods(kcr_cluster)
    assert len(left) == count
    assert not any(pod.metadata.owner_references for pod in left)
    assert await kcr_cluster.client.list(ReplicationController) == ()


async def test_pods_with_another_owner_stay_when_one_waits_for_its_dependents(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    # Upstream's conformance: "should not delete dependents that have both valid owner and owner that's waiting".
    await create(kcr_cluster, 4)
    await available(kcr_cluster, 4)
    template = {"metadata": {"labels": {"app": "other"}}, "spec": POD}
    manifest = {"metadata": {"name": "stays"}, "spec": {"replicas": 0, "template": template}}
    stays = await kcr_cluster.client.create_manifest(ReplicationController, manifest, "default")
    owner = {"apiVersion": "v1", "kind": "ReplicationController", "name": "stays", "uid": stays.metadata.uid}
    both = sorted(pod.metadata.name for pod in await pods(kcr_cluster))[:2]
    for name in both:
        change = {"metadata": {"ownerReferences": [owner]}}
        await kcr_cluster.client.strategic_patch(Pod, kcr.Key("default", name), change)
    await kcr_cluster.client.delete(ReplicationController, KEY, propagation="Foreground")
    await kcr_clock.advance(60)
    assert [found.key.name for found in await kcr_cluster.client.list(ReplicationController)] == ["stays"]
    left = {pod.metadata.name: [one.name for one in pod.metadata.owner_references] for pod in await pods(kcr_cluster)}
    assert left == {name: ["stays"] for name in both}


async def test_refused_pods_are_a_condition_until_they_are_created(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    # Upstream's conformance: "should surface a failure condition on a common issue like exceeded quota".
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}
    await kcr_cluster.client.create_manifest(QUOTAS, quota, "default")
    await create(kcr_cluster, 3)
    await available(kcr_cluster, 2)
    await kcr_clock.settle()
    found = await kcr_cluster.client.get(ReplicationController, KEY)
    (condition,) = found.status.conditions
    assert (condition.type, condition.status, condition.reason) == ("ReplicaFailure", "True", "FailedCreate")
    await kcr_cluster.client.set_scale(ReplicationController, KEY, 2)
    await kcr_clock.advance(10)
    assert (await kcr_cluster.client.get(ReplicationController, KEY)).status.conditions == ()
