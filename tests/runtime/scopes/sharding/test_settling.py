"""Unanswered creates at a hand-over: they are settled first, or the Lease of their shard is left to expire (CM-66)."""

import random

import pytest

import kcr
from kcr.api.core import ConfigMap
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client
from kcr.clock import Clock
from kcr.scopes.leaderelection import LeaderElectionConfig
from kcr.scopes.sharding import ShardedReplica
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.replicas import running, same_loop

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]

NAMES = [f"config-{number}" for number in range(8)]


class Unanswered:
    """A reconciler whose first create for each object is not answered; a later reconcile settles it, if it may."""

    def __init__(self, own_writes: kcr.OwnWrites, configs: kcr.Store[ConfigMap], *, settles: bool) -> None:
        self.reconciled: list[str] = []
        self._own_writes, self._configs, self._settles = own_writes, configs, settles

    async def reconcile(self, key: Key) -> kcr.Result:
        config = self._configs.get(key)
        if config is None or key.name not in NAMES:
            return kcr.Result()
        self.reconciled.append(key.name)
        creates = self._own_writes.of(config).creates
        if creates and self._settles:
            creates.clear()
        elif key.name not in self.reconciled[:-1]:
            creates[key] = config
        return kcr.Result()


class Replica:
    """A process whose creates are not answered, or one that only reconciles."""

    def __init__(self, cluster: EmbeddedCluster, clock: Clock, name: str, *, settles: bool) -> None:
        client, config = Client(cluster.transport), LeaderElectionConfig(name="web", identity=name)
        self.replica = ShardedReplica(
            same_loop(client), config, 2, clock=clock, random=random.Random(name), on_thread=False
        )
        self.manager = kcr.Manager(client, clock=clock, random=random.Random(name), leader_election=self.replica)
        own_writes = kcr.OwnWrites()
        self.reconciler = Unanswered(own_writes, self.manager.store(ConfigMap), settles=settles)
        self.manager.add_controller(
            "unanswered", self.reconciler, watches=[kcr.watch(ConfigMap)], own_writes=own_writes
        )

    async def run(self) -> None:
        await self.manager.run()


async def create(cluster: EmbeddedCluster) -> None:
    for name in NAMES:
        await cluster.client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))


async def test_shard_is_handed_over_once_its_creates_are_settled(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await create(kcr_cluster)
    first, second = (Replica(kcr_cluster, kcr_clock, name, settles=True) for name in "ab")
    async with running(first):
        await kcr_clock.advance(1)
        assert sorted(first.reconciler.reconciled) == NAMES
        async with running(second):
            await kcr_clock.advance(1)
            assert len(second.replica.shards.held) == 1
            # Those that moved were settled before.
            assert len(first.reconciler.reconciled) == len(NAMES) + len(second.reconciler.reconciled)


async def test_shard_that_cannot_be_settled_is_taken_when_its_lease_has_expired(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await create(kcr_cluster)
    first, second = (Replica(kcr_cluster, kcr_clock, name, settles=False) for name in "ab")
    async with running(first):
        await kcr_clock.advance(1)
        async with running(second):
            await kcr_clock.advance(10)
            assert not second.replica.shards.held
            await kcr_clock.advance(15)
            assert len(second.replica.shards.held) == 1


async def test_replica_that_ends_unsettled_does_not_release(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await create(kcr_cluster)
    first, second = (Replica(kcr_cluster, kcr_clock, name, settles=False) for name in "ab")
    async with running(first):
        await kcr_clock.advance(1)
    async with running(second):
        await kcr_clock.advance(10)
        assert not second.replica.shards.held
        await kcr_clock.advance(10)
        assert len(second.replica.shards.held) == 2
