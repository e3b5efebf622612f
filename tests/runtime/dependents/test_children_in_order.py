"""Children of several sequences: each waits until those before it are ready, by the real controllers of their kinds."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import kcr
from kcr.api.core import ConfigMap
from kcr.api.full.apps_v1 import Deployment
from kcr.api.full.batch_v1 import Job
from kcr.api.full.core_v1 import Service
from kcr.api.meta import Key, ObjectMeta
from kcr.controllers.job.controller import Options, setup
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]

KEY = Key("default", "shop")
KINDS: tuple[type[kcr.Resource], ...] = (ConfigMap, Deployment, Job, Service)
NewDeployment = kcr.unstructured("apps/v1", "Deployment", plural="deployments")
NewJob = kcr.unstructured("batch/v1", "Job", plural="jobs")


def metadata(name: str) -> ObjectMeta:
    return ObjectMeta(name=name, namespace="default")


def pod(app: str, restart: str = "Always") -> dict[str, Any]:
    spec = {"restartPolicy": restart, "containers": [{"name": "c", "image": "busybox"}]}
    annotations = {"sim.kcr.dev/run-for": "1h" if restart == "Always" else "20s"}
    return {"metadata": {"labels": {"app": app}, "annotations": annotations}, "spec": spec}


def database(replicas: int = 2) -> kcr.Resource:
    spec = {
        "replicas": replicas,
        "minReadySeconds": 8,
        "selector": {"matchLabels": {"app": "db"}},
        "template": pod("db"),
    }
    return NewDeployment(metadata=metadata("db")).changed(spec=spec)


def migration() -> kcr.Resource:
    return NewJob(metadata=metadata("migrate")).changed(spec={"template": pod("migrate", "Never")})


def web(color: str = "red") -> kcr.Resource:
    return ConfigMap(metadata=metadata("web"), data={"color": color})


class Shop:
    """Ensures the stages that it is given, and notes what it waits for."""

    def __init__(self, manager: kcr.Manager, own_writes: kcr.OwnWrites) -> None:
        self._shops, self._own_writes = manager.store(ConfigMap), own_writes
        informers = [manager.informer(kind) for kind in KINDS]
        self._children = kcr.Children(manager.client, manager.recorder("shop"), informers, own_writes=own_writes)
        self.stages: list[list[kcr.Resource]] = []
        self.waits: list[str] = []

    async def reconcile(self, key: Key) -> kcr.Result:
        shop = self._shops.get(key)
        if key == KEY and shop is not None:
            try:
                await self._children.ensure(shop, *self.stages)
            except kcr.WaitFor as wait:
                if str(wait) not in self.waits:
                    self.waits.append(str(wait))
                raise
        return kcr.Result()


@asynccontextmanager
async def shop(cluster: EmbeddedCluster, clock: VirtualClock, *stages: list[kcr.Resource]) -> AsyncIterator[Shop]:
    manager, own_writes = kcr.Manager(cluster.client, clock=clock, random=random.Random(0)), kcr.OwnWrites()
    reconciler = Shop(manager, own_writes)
    reconciler.stages = list(stages)
    watches = [kcr.watch(ConfigMap), *(kcr.owned(kind, by=ConfigMap) for kind in KINDS)]
    manager.add_controller("shop", reconciler, watches=watches, own_writes=own_writes)
    setup(manager, Options(take_over=True))
    async with manager.running():
        await cluster.client.create(ConfigMap(metadata=metadata(KEY.name)))
        yield reconciler


async def created(cluster: EmbeddedCluster) -> list[str]:
    found: list[kcr.Resource] = []
    for kind in KINDS:
        found += await cluster.client.list(kind, "default")
    return [obj.metadata.name for obj in found if obj.metadata.name in ("db", "migrate", "web")]


async def test_each_stage_waits_until_the_one_before_is_ready(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with shop(kcr_cluster, kcr_clock, [database()], [migration()], [web()]) as reconciler:
        await kcr_clock.advance(7)
        assert await created(kcr_cluster) == ["db"]
        await kcr_clock.advance(5)
        assert await created(kcr_cluster) == ["db", "migrate"]
        await kcr_clock.advance(10)
        assert await created(kcr_cluster) == ["db", "migrate"]
        await kcr_clock.advance(60)
        assert sorted(await created(kcr_cluster)) == ["db", "migrate", "web"]
    first, *_, last = reconciler.waits
    assert first == "deployments.apps default/db: is ready (its spec is not observed yet)"
    assert last == "jobs.batch default/migrate: is ready (1 of 1 pods are ready or have succeeded)"


async def test_change_of_a_stage_holds_back_changes_of_the_next(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with shop(kcr_cluster, kcr_clock, [database()], [web()]) as reconciler:
        await kcr_clock.advance(60)
        reconciler.stages = [[database(replicas=3)], [web("blue")]]
        await kcr_cluster.client.merge_patch(ConfigMap, KEY, {"data": {"n": "1"}})
        await kcr_clock.advance(5)
        # Held back, and not pruned.
        assert (await kcr_cluster.client.get(ConfigMap, Key("default", "web"))).data == {"color": "red"}
        await kcr_clock.advance(60)
        assert (await kcr_cluster.client.get(ConfigMap, Key("default", "web"))).data == {"color": "blue"}


async def test_unwanted_children_are_pruned_while_a_stage_waits(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    never = NewJob(metadata=metadata("migrate")).changed(spec={"suspend": True, "template": pod("migrate", "Never")})
    async with shop(kcr_cluster, kcr_clock, [web()]) as reconciler:
        await kcr_clock.advance(5)
        reconciler.stages = [[never], [database()]]
        await kcr_cluster.client.merge_patch(ConfigMap, KEY, {"data": {"n": "1"}})
        await kcr_clock.advance(60)
        assert await created(kcr_cluster) == ["migrate"]
    assert reconciler.waits == ["jobs.batch default/migrate: is ready (it is suspended)"]


async def test_child_without_a_status_cannot_be_waited_for(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    manager, own_writes = kcr.Manager(kcr_cluster.client, clock=kcr_clock, random=random.Random(0)), kcr.OwnWrites()
    informers: list[Any] = [manager.informer(kcr.metadata_only(Job)), manager.informer(ConfigMap)]
    children = kcr.Children(manager.client, manager.recorder("shop"), informers, own_writes=own_writes)
    async with manager.running():
        owner = await kcr_cluster.client.create(ConfigMap(metadata=metadata(KEY.name)))
        await children.ensure(owner, [migration()])
        await kcr_clock.advance(5)
        with pytest.raises(TypeError, match=r"readiness: jobs.batch default/migrate is of a type without a status"):
            await children.ensure(owner, [migration()], [web()])
