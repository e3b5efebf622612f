"""Sharded replicas: shares, hand-over, loss of a Lease, labels (CM-66)."""

import asyncio
import random
from collections.abc import Iterable

import pytest

import kcr
from kcr.api.coordination import Lease
from kcr.api.core import ConfigMap, Namespace
from kcr.api.meta import Key, ObjectMeta
from kcr.api.slots import SLOT_LABEL, shard_of, slot_of
from kcr.client import Client, Transport
from kcr.clock import Clock
from kcr.errors import LeadershipLostError
from kcr.scopes.leaderelection import LeaderElectionConfig
from kcr.scopes.sharding import ShardedReplica
from kcr.testing import CrashingTransport, FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.replicas import running, same_loop

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]

SHARDS = 8


class Copier:
    """Creates a ConfigMap `<name>-copy`, owned by each ConfigMap with the label `copy`."""

    def __init__(self, manager: kcr.Manager) -> None:
        self.reconciled: list[str] = []
        self.configs = manager.store(ConfigMap)
        self._client = manager.client

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        config = self.configs.get(key)
        if config is None or config.metadata.labels.get("copy") != "yes":
            return kcr.Result()
        self.reconciled.append(key.name)
        copy = ConfigMap(metadata=ObjectMeta(name=f"{key.name}-copy", namespace=key.namespace), data={"by": "kcr"})
        await self._client.apply(kcr.set_controller(copy, config))
        return kcr.Result()


class Replica:
    """A process with a manager, a controller and a share of the objects."""

    def __init__(self, clock: Clock, transport: Transport, name: str) -> None:
        config = LeaderElectionConfig(name="web", identity=name)
        connect = same_loop(Client(transport))
        self.replica = ShardedReplica(connect, config, SHARDS, clock=clock, random=random.Random(name), on_thread=False)
        self.manager = kcr.Manager(
            Client(transport), clock=clock, random=random.Random(name), leader_election=self.replica
        )
        self.copier = Copier(self.manager)
        self.manager.add_controller(
            "copier", self.copier, watches=[kcr.watch(ConfigMap), kcr.owned(ConfigMap, by=ConfigMap)]
        )
        self.failure: Exception | None = None

    @property
    def held(self) -> set[int]:
        return set(self.replica.shards.held)

    async def run(self) -> None:
        try:
            await self.manager.run()
        except Exception as error:
            self.failure = error


async def create(cluster: EmbeddedCluster, *names: str) -> list[ConfigMap]:
    return [
        await cluster.client.create(
            ConfigMap(metadata=ObjectMeta(name=name, namespace="default", labels={"copy": "yes"}))
        )
        for name in names
    ]


async def label(cluster: EmbeddedCluster, name: str, slots: Iterable[int]) -> None:
    """Create a ConfigMap with the label of each slot."""
    for slot in slots:
        metadata = ObjectMeta(name=f"{name}-{slot}", namespace="default", labels={SLOT_LABEL: str(slot)})
        await cluster.client.create(ConfigMap(metadata=metadata))


NAMES = [f"config-{number}" for number in range(40)]


async def test_single_replica_takes_all_shards_and_reconciles_everything(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    one = Replica(kcr_clock, kcr_cluster.transport, "a")
    made = await create(kcr_cluster, *NAMES)
    async with running(one):
        await kcr_clock.advance(3)
        assert one.held == set(range(SHARDS))
        assert sorted(set(one.copier.reconciled)) == sorted(NAMES)
        for config in made:
            copy = await kcr_cluster.client.get(ConfigMap, Key("default", f"{config.metadata.name}-copy"))
            assert copy.metadata.labels[SLOT_LABEL] == str(slot_of(config.metadata))
    assert one.failure is None


async def test_second_replica_takes_over_its_share_at_once(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    first, second = (Replica(kcr_clock, kcr_cluster.transport, name) for name in "ab")
    made = await create(kcr_cluster, *NAMES)
    async with running(first):
        await kcr_clock.advance(10)
        async with running(second):
            await kcr_clock.advance(1)
            assert len(first.held) == len(second.held) == SHARDS // 2
            assert first.held | second.held == set(range(SHARDS))
            for replica in (first, second):
                mine = {c.metadata.name for c in made if shard_of(slot_of(c.metadata), SHARDS) in replica.held}
                shown = {c.metadata.name for c in replica.copier.configs.list() if "copy" in c.metadata.labels}
                assert shown == mine
            later = await create(kcr_cluster, *(f"later-{number}" for number in range(40)))
            await kcr_clock.advance(1)
            for replica in (first, second):
                mine = {c.metadata.name for c in later if shard_of(slot_of(c.metadata), SHARDS) in replica.held}
                assert mine == {name for name in replica.copier.reconciled if name.startswith("later")}
        # The second one was stopped in order: its shards are taken at once.
        await kcr_clock.advance(0.5)
        assert first.held == set(range(SHARDS))
        leases = await kcr_cluster.client.list(Lease, "default")
        assert sorted(lease.metadata.name for lease in leases if "replica" in lease.metadata.name) == [
            lease.metadata.name
            for lease in leases
            if lease.spec.holder_identity == "a" and "replica" in lease.metadata.name
        ]
    assert first.failure is second.failure is None


@pytest.mark.parametrize("slow", ["to open", "initial events", "relist"])
async def test_watch_that_is_being_opened_at_a_hand_over_does_not_keep_the_slots_that_are_gone(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, slow: str
) -> None:
    await create(kcr_cluster, *NAMES[:8])
    await label(kcr_cluster, "early", range(0, 64, 4))
    transport = FaultyTransport(kcr_cluster.transport)
    first, second = Replica(kcr_clock, transport, "a"), Replica(kcr_clock, kcr_cluster.transport, "b")
    informer = first.manager.informer(ConfigMap)
    watches = transport.on("watch", ConfigMap)
    watches.delay(0.3) if slow == "to open" else watches.lag(0 if slow == "relist" else 0.3)
    async with running(first):
        await kcr_clock.advance(3)
        if slow == "relist":
            watches.lag(0.3)
            assert informer.parted is not None
            for reflector in informer.parted.reflectors:
                reflector.relist("a test")
            await kcr_clock.advance(4)
        # Half of the initial events have come.
        async with running(second):
            await kcr_clock.advance(20)
            assert len(first.held) == len(second.held) == SHARDS // 2
            assert watches.met > 2
            foreign = informer.counts["foreign"]
            await label(kcr_cluster, "late", range(64))
            await kcr_clock.advance(60)
            shown = first.copier.configs.list()
            # The others are kept by their uid, or by that of their owner.
            labelled = [config for config in shown if SLOT_LABEL in config.metadata.labels]
            assert {shard_of(slot_of(config.metadata), SHARDS) for config in labelled} == first.held
            assert informer.counts["foreign"] == foreign, "the server filters labelled objects"


async def test_shards_of_a_killed_replica_are_taken_after_the_lease(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    wire = CrashingTransport(kcr_cluster.transport)
    first, second = Replica(kcr_clock, kcr_cluster.transport, "a"), Replica(kcr_clock, wire, "b")
    async with running(first, second) as (_, task):
        await kcr_clock.advance(5)
        assert len(second.held) == SHARDS // 2
        wire.crash_after(0)
        made = await create(kcr_cluster, *NAMES)
        await kcr_clock.advance(10)
        assert len(first.held) == SHARDS // 2
        await kcr_clock.advance(10)
        assert first.held == set(range(SHARDS))
        assert {c.metadata.name for c in made} <= set(first.copier.reconciled)
        task.cancel()


async def test_replica_that_was_killed_long_ago_gets_no_share(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    wire = CrashingTransport(kcr_cluster.transport)
    async with running(Replica(kcr_clock, wire, "dead")) as (task,):
        await kcr_clock.advance(5)
        wire.crash_after(0)
        task.cancel()
    await kcr_clock.advance(60)
    first, second = (Replica(kcr_clock, kcr_cluster.transport, name) for name in "ab")
    async with running(first):
        await kcr_clock.advance(20)
        async with running(second):
            await kcr_clock.advance(1)
            assert len(first.held) == len(second.held) == SHARDS // 2
        await kcr_clock.advance(0.5)
        assert first.held == set(range(SHARDS))


async def test_replica_without_contact_to_its_leases_ends(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    wire = CrashingTransport(kcr_cluster.transport)
    one = Replica(kcr_clock, wire, "a")
    async with running(one):
        await kcr_clock.advance(5)
        wire.crash_after(0)
        await kcr_clock.advance(20)
        assert isinstance(one.failure, LeadershipLostError)


async def test_component_runs_on_the_replica_with_the_first_shard(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    class Component:
        def __init__(self) -> None:
            self.begun, self.running = 0, False

        async def run(self) -> None:
            self.begun, self.running = self.begun + 1, True
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self.running = False

    first, second = (Replica(kcr_clock, kcr_cluster.transport, name) for name in "ab")
    components = [Component(), Component()]
    for replica, component in zip((first, second), components, strict=True):
        replica.manager.add(component)
    async with running(second):
        async with running(first):
            await kcr_clock.advance(5)
            assert sum(component.running for component in components) == 1
            assert components[0].running is (0 in first.held)
        await kcr_clock.advance(1)
        assert components[1].running
        assert not components[0].running


async def test_namespaces_of_a_mapping_are_watched_whole(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    first, second = (Replica(kcr_clock, kcr_cluster.transport, name) for name in "ab")
    for replica in (first, second):
        controller = replica.manager.controllers["copier"]
        replica.manager.add_watch(controller, kcr.watch(Namespace, map_to=lambda _: ()))
    async with running(first, second):
        await kcr_clock.advance(5)
        assert len(first.manager.store(Namespace)) == len(second.manager.store(Namespace)) > 1


async def test_controller_beside_one_that_needs_all_objects_reconciles_its_share(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    class Counter:
        async def reconcile(self, key: kcr.Key) -> kcr.Result:
            return kcr.Result()

    first, second = (Replica(kcr_clock, kcr_cluster.transport, name) for name in "ab")
    for replica in (first, second):
        replica.manager.add_controller("counter", Counter(), watches=[kcr.watch(ConfigMap)], sharded=False)
    async with running(first, second):
        await kcr_clock.advance(10)
        made = await create(kcr_cluster, *NAMES)
        await kcr_clock.advance(5)
        for replica in (first, second):
            assert len(replica.copier.configs) >= 2 * len(NAMES)
            mine = {c.metadata.name for c in made if shard_of(slot_of(c.metadata), SHARDS) in replica.held}
            assert set(replica.copier.reconciled) == mine


class Noting:
    """A component that creates a ConfigMap of its name."""

    def __init__(self, manager: kcr.Manager, name: str) -> None:
        self.name = name
        self.refusal: Exception | None = None
        self._manager = manager

    async def run(self) -> None:
        try:
            await self._manager.client.create(ConfigMap(metadata=ObjectMeta(name=self.name, namespace="default")))
        except kcr.KcrError as error:
            self.refusal = error


async def test_write_without_an_owner_is_refused(kcr_clock: VirtualClock, kcr_cluster: EmbeddedCluster) -> None:
    replica = Replica(kcr_clock, kcr_cluster.transport, "a")
    once, everywhere = Noting(replica.manager, "once"), Noting(replica.manager, "everywhere")
    replica.manager.add(once)
    replica.manager.add(everywhere, needs_leader_election=False)
    async with running(replica):
        await kcr_clock.advance(20)
        # Every replica would make it, each beside the others.
        stray = Noting(replica.manager, "stray")
        await stray.run()
        assert isinstance(stray.refusal, kcr.ConfigError)
        assert "has no owner" in str(stray.refusal)
        assert "needs_leader_election=False" in str(stray.refusal)
    assert (once.refusal, everywhere.refusal) == (None, None)
    created = {config.metadata.name for config in await kcr_cluster.client.list(ConfigMap, "default")}
    assert {"once", "everywhere"} <= created
    assert "stray" not in created
