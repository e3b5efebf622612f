"""Controllers whose watches come and go: what they reconcile, and which watches are open meanwhile."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import kcr
from kcr.api.core import ConfigMap
from kcr.api.meta import ObjectMeta
from kcr.client import Client, Request, Response, Transport
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.transports import watched


class Absent(kcr.FullResource, api_version="example.dev/v1", plural="gadgets"):
    """A kind that the server does not have."""


class OpenWatches:
    """A transport that counts the open watches by plural."""

    def __init__(self, inner: Transport) -> None:
        self.open: Counter[str] = Counter()
        self.inner = inner

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        plural = watched(request)
        async with self.inner.send(request) as response:
            self.open[plural] += 1
            try:
                yield response
            finally:
                self.open[plural] -= 1


class Names:
    """A reconciler that keeps the names of its keys; `gate` holds it up."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        await self.gate.wait()
        self.seen.append(key.name)
        return kcr.Result()


def manager_on(transport: Transport, clock: VirtualClock) -> tuple[kcr.Manager, Names, kcr.Controller]:
    manager, names = kcr.Manager(Client(transport), clock=clock, random=random.Random(0)), Names()
    return manager, names, manager.add_controller("names", names)


async def create_config_maps(cluster: EmbeddedCluster, *names: str) -> None:
    for name in names:
        await cluster.client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))
