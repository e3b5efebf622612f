"""An owner and its dependents, as the tests of `kcr.dependents` have them."""

from random import Random

from kcr.api.core import ConfigMap
from kcr.client import Client
from kcr.controller import OwnWrites
from kcr.dependents import DependentControl
from kcr.testing import FakeInformer, FakeRecorder, FaultyTransport, build
from kcr_devcluster.cluster import EmbeddedCluster


class Shop:
    """An owner, and the control of its ConfigMaps."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.client = cluster.client
        self.faults = FaultyTransport(cluster.transport)
        self.recorder = FakeRecorder()
        self.own_writes = OwnWrites()
        self.informer = FakeInformer(ConfigMap)
        self.control = DependentControl(
            Client(self.faults), self.recorder, ConfigMap,
            store=self.informer.store, own_writes=self.own_writes, random=Random(0),
        )  # fmt: skip

    async def owner(self, name: str = "shop") -> ConfigMap:
        return await self.client.create(build.config_map(name, uid="", resource_version=""))

    async def objects(self) -> tuple[ConfigMap, ...]:
        return await self.client.list(ConfigMap, labels="app=shop")

    async def names(self) -> list[str]:
        return sorted(found.key.name for found in await self.objects())

    def told(self) -> list[str]:
        return [str(event) for event in self.recorder.events]
