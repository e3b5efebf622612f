import asyncio

import pytest

from kcr.api.coordination import Lease
from kcr.api.core import ConfigMap
from kcr.api.meta import Key, ObjectMeta, OwnerReference, metadata_only
from kcr.testing import FakeManager, VirtualClock
from kcr_devcluster.cluster.controllers.garbage_collector import GarbageCollector
from kcr_devcluster.cluster.controllers.graph import FOREGROUND

pytestmark = pytest.mark.kcr_virtual


async def test_owner_stays_until_every_watched_kind_is_listed(kcr_clock: VirtualClock) -> None:
    manager = FakeManager(clock=kcr_clock)
    collector = GarbageCollector(manager, [ConfigMap.resource, Lease.resource])
    owners, dependents = manager.informer(metadata_only(ConfigMap)), manager.informer(metadata_only(Lease))
    dependents.synced = False
    for kind in (ConfigMap, Lease):
        collector.watch(kind.resource)
    key = Key("default", "owner")
    await manager.client.create(ConfigMap(metadata=ObjectMeta(namespace=key.namespace, name=key.name)))
    await manager.client.delete(ConfigMap, key, propagation="Foreground")
    owner = await manager.client.get(metadata_only(ConfigMap), key)
    owners.add(owner)
    uid = owner.metadata.uid
    reference = OwnerReference(api_version="v1", kind="ConfigMap", name="owner", uid=uid, block_owner_deletion=True)
    async with asyncio.TaskGroup() as group:
        reconcile = group.create_task(collector.reconcile(Key("", uid)))
        await kcr_clock.advance(60)
        assert not reconcile.done()
        metadata = ObjectMeta(namespace="default", name="dependent", uid="u", owner_references=(reference,))
        dependent = dependents.add(metadata_only(Lease)(metadata=metadata))
        dependents.synced = True
    assert (await manager.client.get(ConfigMap, key)).metadata.finalizers == (FOREGROUND,)
    dependents.delete(dependent)
    await collector.reconcile(Key("", uid))
    assert await manager.client.list(ConfigMap, fields="metadata.name=owner") == ()
