"""The reconciler on fake informers: the test says what the stores hold, and looks at what was written."""

import msgspec
import pytest

import kcr
from examples.replicaset.controller import ReplicaSetReconciler
from kcr.api import codec
from kcr.api.apps import ReplicaSet, ReplicaSetSpec
from kcr.api.core import Pod
from kcr.api.meta import is_controlled_by
from kcr.api.selectors import LabelSelector
from kcr.testing import FakeManager, build

pytestmark = pytest.mark.kcr_virtual

LABELS = {"app": "web"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "main", "image": "busybox"}]}}


class World:
    """The reconciler, the stores it reads, and the server it writes to."""

    def __init__(self) -> None:
        self.manager = FakeManager()
        self.own_writes = kcr.OwnWrites()
        self.owners, self.pods = self.manager.informer(ReplicaSet), self.manager.informer(Pod)
        self.reconciler = ReplicaSetReconciler(self.manager, self.own_writes)

    async def create(self, replicas: int) -> ReplicaSet:
        """Create a ReplicaSet on the server, and let the store show it."""
        spec = ReplicaSetSpec(
            replicas=replicas,
            selector=LabelSelector(match_labels=LABELS),
            template=msgspec.Raw(msgspec.json.encode(TEMPLATE)),
        )
        metadata = kcr.ObjectMeta(name="web", namespace="default")
        return self.owners.add(await self.manager.client.create(ReplicaSet(metadata=metadata, spec=spec)))

    async def observe(self, key: kcr.Key) -> None:
        """Let the store show the ReplicaSet as the server has it."""
        self.owners.modify(await self.manager.client.get(ReplicaSet, key))

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        """Reconcile, and let the store show the status that was written."""
        result = await self.reconciler.reconcile(key)
        await self.observe(key)
        return result

    async def live(self) -> tuple[Pod, ...]:
        """The pods that the server has."""
        return await self.manager.client.list(Pod, "default")


async def test_pods_are_created_with_labels_owner_and_event() -> None:
    world = World()
    web = await world.create(3)
    await world.reconciler.reconcile(web.key)
    pods = await world.live()
    assert [dict(pod.metadata.labels) for pod in pods] == [LABELS] * 3
    assert all(is_controlled_by(pod, web) and pod.metadata.name.startswith("web-") for pod in pods)
    assert len(world.manager.recorder("replicaset-controller").find("SuccessfulCreate", about=web.key)) == 3


async def test_reconcile_waits_until_the_store_shows_its_own_writes() -> None:
    world = World()
    web = await world.create(1)
    await world.reconciler.reconcile(web.key)
    enqueued: list[kcr.Key] = []
    assert world.own_writes.defer_if_stale(web.key, lambda: enqueued.append(web.key))
    for pod in await world.live():
        world.pods.add(pod)
    world.owners.modify(await world.manager.client.get(ReplicaSet, web.key))
    assert enqueued
    assert not world.own_writes.defer_if_stale(web.key, lambda: None)


async def test_pod_without_a_controller_is_adopted_and_another_released() -> None:
    world = World()
    web = await world.create(1)
    stray = build.pod("stray", labels=LABELS, uid="", resource_version="", creation_timestamp=None)
    other = build.pod("other", owner=web, uid="", resource_version="", creation_timestamp=None)
    for pod in (stray, other):
        world.pods.add(await world.manager.client.create_manifest(Pod, codec.encode(pod), "default"))
    await world.reconciler.reconcile(web.key)
    found = {pod.metadata.name: is_controlled_by(pod, web) for pod in await world.live()}
    assert found == {"stray": True, "other": False}


async def test_deleted_pod_that_the_store_still_shows_is_not_counted() -> None:
    world = World()
    web = await world.create(2)
    await world.reconcile(web.key)
    first, second = await world.live()
    world.pods.add(first)
    ready = build.pod(second.metadata.name, "Running", ready=True, labels=LABELS, owner=web, uid=second.metadata.uid)
    world.pods.add(ready)
    await world.manager.client.merge_patch(ReplicaSet, web.key, {"spec": {"replicas": 1}})
    await world.observe(web.key)
    await world.reconcile(web.key)
    assert [pod.metadata.name for pod in await world.live()] == [second.metadata.name]
    # No other pod is deleted or created in its place.
    await world.reconcile(web.key)
    assert [pod.metadata.name for pod in await world.live()] == [second.metadata.name]


async def test_deleted_owner_is_forgotten() -> None:
    world = World()
    assert await world.reconciler.reconcile(kcr.Key("default", "gone")) == kcr.Result()
