"""Informers of a server that is restored from a backup: its versions go back, and its watches are silent until then."""

from contextlib import AbstractAsyncContextManager, AsyncExitStack
from random import Random

import pytest

import kcr
from kcr.api.core import ConfigMap
from kcr.api.meta import ObjectMeta
from kcr.client import Client, Request, Response, Transport
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]


class Address:
    """A transport to the server that is behind an address now."""

    def __init__(self, server: Transport) -> None:
        self.behind = server

    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        return self.behind.send(request)

    async def aclose(self) -> None:
        """Close nothing."""


async def create(client: Client, *names: str) -> None:
    for name in names:
        await client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))


@pytest.mark.parametrize("namespaces", ["", "default,kube-system"], ids=["one-watch", "two-watches"])
async def test_cache_is_that_of_the_restored_server(kcr_clock: VirtualClock, namespaces: str) -> None:
    async with AsyncExitStack() as past, EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None) as restored:
        lost = await past.enter_async_context(EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None))
        await create(restored.client, "kept")
        address = Address(lost.transport)
        manager = kcr.Manager(Client(address), clock=kcr_clock, namespace=namespaces)
        store = manager.store(ConfigMap)
        async with manager.running():
            await create(lost.client, "kept", *(f"newer-{number}" for number in range(20)))
            await kcr_clock.advance(1)
            assert len(store.list("default")) == 21
            address.behind = restored.transport
            await past.aclose()
            await create(restored.client, "later")
            await kcr_clock.advance(120)
            assert sorted(one.metadata.name for one in store.list("default")) == ["kept", "later"]
            await create(restored.client, "last")
            await kcr_clock.advance(1)
            assert store.get(kcr.Key("default", "last")) is not None
