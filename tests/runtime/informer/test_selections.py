"""What a manager is told to follow, and what it then knows."""

import asyncio
from random import Random

import pytest
from msgspec.structs import replace

import kcr
from kcr.api.core import ConfigMap
from kcr.api.meta import ObjectMeta
from kcr.client import Client
from kcr.errors import NotSyncedError
from kcr.informer import Selection
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = pytest.mark.kcr_virtual


async def create(client: Client, namespace: str, name: str, app: str) -> None:
    metadata = ObjectMeta(namespace=namespace, name=name, labels={"app": app})
    await client.create(ConfigMap(metadata=metadata, data={"large": "value"}))


def without_data(found: ConfigMap) -> ConfigMap:
    return replace(found, data={})


# IN-35, IN-36, IN-37, RF-33
async def test_manager_keeps_what_was_selected_and_nothing_else(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    for namespace in ("default", "kube-public", "kube-system"):
        for app in ("web", "db"):
            await create(kcr_cluster.client, namespace, app, app)
    manager = kcr.Manager(kcr_cluster.client, clock=kcr_clock, random=Random(0))
    manager.select(
        Selection(ConfigMap, "default", labels="app=web", transform=without_data),
        Selection(ConfigMap, "kube-public"),
    )
    store = manager.store(ConfigMap)
    with pytest.raises(NotSyncedError, match="configmaps in default \\(app=web\\): its informer does not run"):
        store.list()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(manager.run())
        await manager.wait_ready()
        found = {
            str(config.key): dict(config.data) for config in store.list() if config.metadata.name != "kube-root-ca.crt"
        }
        task.cancel()
    full = {"large": "value"}
    assert found == {"default/web": {}, "kube-public/web": full, "kube-public/db": full}
    assert manager.store(ConfigMap) is store


# IN-14
async def test_selection_comes_before_the_first_use(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    manager = kcr.Manager(kcr_cluster.client, clock=kcr_clock, random=Random(0))
    manager.store(ConfigMap)
    with pytest.raises(ValueError, match=r"configmaps: select before .*, and once: beside others"):
        manager.select(Selection(ConfigMap, "default"))
