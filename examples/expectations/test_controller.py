"""Expectations on fake informers: nothing is created twice while the watch is late."""

import pytest

from examples.expectations.controller import Observer, Replicas, owner, setup
from kcr.api.core import ConfigMap
from kcr.testing import FakeManager, namespace_ends
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = pytest.mark.kcr_virtual


async def test_late_watch_makes_no_second_set() -> None:
    manager = FakeManager()
    store = manager.informer(ConfigMap)
    reconciler = Replicas(manager)
    store.add_handler(Observer(reconciler.expectations))
    asked = store.add(await manager.client.create(owner("blue", {"count": "2", "color": "blue"})))

    async def reconcile() -> tuple[ConfigMap, ...]:
        await reconciler.reconcile(asked.key)
        store.modify(await manager.client.get(ConfigMap, asked.key))
        return tuple(one for one in await manager.client.list(ConfigMap, "default") if one.key != asked.key)

    await reconcile()  # The first adds the finalizer.
    made = await reconcile()
    assert [one.data for one in made] == [{"color": "blue"}] * 2
    # The store shows none of them yet: what was created is expected, and not created again.
    assert await reconcile() == made
    for one in made:
        store.add(one)
    assert await reconcile() == made


async def test_namespace_with_live_owners_ends(kcr_cluster: EmbeddedCluster) -> None:
    await namespace_ends(kcr_cluster, setup, [owner("blue", {"count": "2", "color": "blue"})])
