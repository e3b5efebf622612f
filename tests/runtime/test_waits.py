"""A reconciler that waits for an object of another controller, on the embedded server."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import kcr
from kcr.api.core import ConfigMap, Secret
from kcr.testing import CrashingTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]

KEY, TOKEN = kcr.Key("default", "shop"), kcr.Key("default", "shop-token")


class Publisher:
    """Marks a ConfigMap as published once the Secret of its name has a token; notes each call."""

    def __init__(self, manager: kcr.Manager) -> None:
        self._client = manager.client
        self._configs, self._secrets = manager.store(ConfigMap), manager.store(Secret)
        self.calls = 0

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        config = self._configs.get(key)
        if config is None or key != KEY or "published" in config.data:
            return kcr.Result()
        self.calls += 1
        secret = self._secrets.get(TOKEN)
        if secret is None or not has_token(secret):
            raise kcr.WaitFor(Secret, TOKEN, has_token, timeout=600)
        await self._client.merge_patch(ConfigMap, key, {"data": {"published": "yes"}})
        return kcr.Result()


def has_token(secret: Secret) -> bool:
    return "token" in secret.data


@asynccontextmanager
async def publisher(
    cluster: EmbeddedCluster, clock: VirtualClock
) -> AsyncIterator[tuple[Publisher, CrashingTransport]]:
    transport = CrashingTransport(cluster.transport)
    manager = kcr.Manager(kcr.Client(transport), clock=clock, random=random.Random(0))
    reconciler = Publisher(manager)
    manager.add_controller("publisher", reconciler, watches=[kcr.watch(ConfigMap)])
    async with manager.running():
        yield reconciler, transport


async def create_config(cluster: EmbeddedCluster) -> None:
    await cluster.client.create(ConfigMap(metadata=kcr.ObjectMeta(name=KEY.name, namespace=KEY.namespace)))


async def create_secret(cluster: EmbeddedCluster, data: dict[str, str]) -> None:
    metadata = {"name": TOKEN.name, "namespace": TOKEN.namespace}
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}
    await cluster.client.create_manifest(Secret, manifest, TOKEN.namespace)


async def is_published(cluster: EmbeddedCluster) -> bool:
    return "published" in (await cluster.client.get(ConfigMap, KEY)).data


async def test_watch_event_of_the_awaited_object_ends_the_wait(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await create_config(kcr_cluster)
    async with publisher(kcr_cluster, kcr_clock) as (reconciler, transport):
        await kcr_clock.advance(60)
        await create_secret(kcr_cluster, {"other": "x"})
        await kcr_clock.advance(60)
        assert reconciler.calls == 1
        await kcr_cluster.client.merge_patch(Secret, TOKEN, {"stringData": {"token": "x"}})
        await kcr_clock.advance(0.1)
        assert await is_published(kcr_cluster)
        assert transport.writes == 1


async def test_wait_is_found_again_after_a_crash(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await create_config(kcr_cluster)
    async with publisher(kcr_cluster, kcr_clock) as (reconciler, transport):
        await kcr_clock.advance(1)
        assert reconciler.calls == 1
        transport.crash_after(0)
    await create_secret(kcr_cluster, {"token": "x"})
    async with publisher(kcr_cluster, kcr_clock):
        await kcr_clock.advance(1)
        assert await is_published(kcr_cluster)
