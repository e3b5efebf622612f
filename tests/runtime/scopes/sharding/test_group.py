"""The Lease that sharded replicas hold together: the last one releases it, unless another one joins (CM-66)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest

from kcr.api.coordination import Lease, LeaseSpec
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client, Request, Response, Transport
from kcr.scopes.leaderelection import LeaderElectionConfig
from kcr.scopes.sharding.leases import LeaseNames
from kcr.scopes.sharding.shards import GroupLease
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]


class Interrupted:
    """A wire on which something happens before each list."""

    def __init__(self, inner: Transport, before: Callable[[], Awaitable[object]]) -> None:
        self.inner, self._before = inner, before

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        if "labelSelector" in request.target:
            await self._before()
        async with self.inner.send(request) as response:
            yield response


async def nothing() -> None:
    """Nothing happens."""


def member(transport: Transport, clock: VirtualClock, name: str) -> GroupLease:
    names = LeaseNames(LeaderElectionConfig(name="web", identity=name), 8)
    return GroupLease(Client(transport), names, clock=clock, random=Random(name), is_blocked=lambda: False)


async def has_joined(one: GroupLease) -> None:
    async with asyncio.TaskGroup() as group:
        running = group.create_task(one.run())
        await one.elected.wait()
        running.cancel()


async def holder(cluster: EmbeddedCluster) -> str:
    return (await cluster.client.get(Lease, Key("default", "web"))).spec.holder_identity


async def test_last_member_releases_the_lease(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    one = member(kcr_cluster.transport, kcr_clock, "a")
    await has_joined(one)
    assert await holder(kcr_cluster) == "sharded-8"
    await one.release_if_last()
    assert await holder(kcr_cluster) == ""


async def test_member_that_joins_during_the_release_keeps_the_lease(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    other = member(kcr_cluster.transport, kcr_clock, "b")
    one = member(Interrupted(kcr_cluster.transport, lambda: has_joined(other)), kcr_clock, "a")
    await has_joined(one)
    await one.release_if_last()
    assert await holder(kcr_cluster) == "sharded-8"


@pytest.mark.parametrize("name", ["web-replica-0123456789abcdef", "web-shard-3"])
async def test_lease_of_another_replica_or_of_a_shard_prevents_the_release(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, name: str
) -> None:
    one = member(Interrupted(kcr_cluster.transport, nothing), kcr_clock, "a")
    await has_joined(one)
    metadata = ObjectMeta(name=name, namespace="default", labels={"kcr.dev/sharding": "web"})
    await kcr_cluster.client.create(Lease(metadata=metadata, spec=LeaseSpec(holder_identity="b")))
    await one.release_if_last()
    assert await holder(kcr_cluster) == "sharded-8"
