"""Children of several sequences survive a crash, a lost or late request, and a late event at any of their writes."""

from typing import Any

import pytest

import kcr
from kcr.api.core import ConfigMap
from kcr.api.full.batch_v1 import Job
from kcr.api.meta import Key, ObjectMeta
from kcr.informer import Informer
from kcr.testing import explore
from kcr_devcluster.testing.explore import World

NAME = "shop"
Migration = kcr.unstructured("batch/v1", "Job", plural="jobs")
POD = {"restartPolicy": "Never", "containers": [{"name": "migrate", "image": "busybox"}]}


class Shop:
    """Runs a migration, and has a page once that is complete."""

    def __init__(self, manager: kcr.Manager, own_writes: kcr.OwnWrites) -> None:
        informers: list[Informer[Any]] = [manager.informer(ConfigMap), manager.informer(Job)]
        self._shops = manager.store(ConfigMap)
        self._children = kcr.Children(manager.client, manager.recorder("shop"), informers, own_writes=own_writes)

    async def reconcile(self, key: Key) -> kcr.Result:
        shop = self._shops.get(key)
        if shop is not None and key.name == NAME:
            migration = Migration(metadata=ObjectMeta(name="migrate", namespace=key.namespace))
            page = ConfigMap(metadata=ObjectMeta(name="page", namespace=key.namespace), data={"color": "red"})
            await self._children.ensure(shop, [migration.changed(spec={"template": {"spec": POD}})], [page])
        return kcr.Result()


def setup(manager: kcr.Manager) -> None:
    own_writes = kcr.OwnWrites()
    watches = [kcr.watch(ConfigMap), kcr.owned(ConfigMap, by=ConfigMap), kcr.owned(Job, by=ConfigMap)]
    manager.add_controller("shop", Shop(manager, own_writes), watches=watches, own_writes=own_writes)


async def scenario(world: World) -> None:
    key = Key(world.namespace, NAME)
    await world.client.create(ConfigMap(metadata=ObjectMeta(name=NAME, namespace=key.namespace)))
    await world.settled()
    assert (await world.client.get(Job, Key(key.namespace, "migrate"))).status
    assert (await world.client.get(ConfigMap, Key(key.namespace, "page"))).data == {"color": "red"}
    await world.client.delete(ConfigMap, key)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("fault", ["crash-after@1", "crash-before@2", "reply-lost@2", "arrives-late@1"])
def test_children_in_order_survive_a_fault(fault: str) -> None:
    explore(scenario, setup, controllers=["job"], only=fault)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_children_in_order_survive_every_fault() -> None:
    explore(scenario, setup, controllers=["job"], seconds=300)
