"""Creates that arrive late or have no answer: one child for each that is wanted, also after a hand-over (CL-21)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest

import kcr
from kcr.api.core import ConfigMap, Secret
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client
from kcr.scopes.leaderelection import LeaderElectionConfig, LeaderElector
from kcr.scopes.sharding import ShardedReplica
from kcr.scopes.sharding.replica import same_loop
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.late_creates import LateCreates
from tests.kit.replicas import running

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]

OWNERS = [f"owner-{number}" for number in range(6)]
WANTED = 2

# How late creates arrive, and when the connection of their sender is cut: never, before or about when they arrive.
LATE = [
    pytest.param(4.0, None, id="answered-late"),
    pytest.param(2.0, 0.3, id="cut-before"),
    pytest.param(4.0, 0.1, id="cut-long-before"),
    pytest.param(0.1, 0.1, id="cut-meanwhile"),
]


class ChildrenReconciler:
    """Creates two Secrets for each ConfigMap, by `generateName`; written as in the guide."""

    def __init__(self, manager: kcr.Manager) -> None:
        self._client = manager.client
        self._owners, self._children = manager.store(ConfigMap), manager.store(Secret)

    async def reconcile(self, key: Key) -> kcr.Result:
        owner = self._owners.get(key)
        if owner is None or key.name not in OWNERS:
            return kcr.Result()
        children = self._children.by_index("owner", owner.metadata.uid)
        for _ in range(WANTED - len(children)):
            await self._create(owner)
        return kcr.Result()

    async def _create(self, owner: ConfigMap) -> None:
        metadata = ObjectMeta(generate_name=f"{owner.metadata.name}-", namespace=owner.metadata.namespace)
        await self._client.create(kcr.set_controller(Secret(metadata=metadata), owner))


class ManifestReconciler(ChildrenReconciler):
    """The same, from plain mappings."""

    async def _create(self, owner: ConfigMap) -> None:
        reference = {
            "apiVersion": "v1", "kind": "ConfigMap", "name": owner.metadata.name, "uid": owner.metadata.uid,
            "controller": True,
        }  # fmt: skip
        metadata = {"generateName": f"{owner.metadata.name}-", "ownerReferences": [reference]}
        await self._client.create_manifest(Secret, {"metadata": metadata}, owner.metadata.namespace)


Replicas = Callable[[Client, str], "Replica"]


class Replica:
    """A process with the controller."""

    def __init__(
        self,
        manager: kcr.Manager,
        reconciler: Callable[[kcr.Manager], ChildrenReconciler] = ChildrenReconciler,
    ) -> None:
        self.manager = manager
        watches = [kcr.watch(ConfigMap), kcr.owned(Secret, by=ConfigMap)]
        manager.add_controller("children", reconciler(manager), watches=watches)

    async def run(self) -> None:
        await self.manager.run()


def alone(clock: VirtualClock) -> Replicas:
    return lambda client, name: Replica(kcr.Manager(client, clock=clock, random=Random(name)))


def leading(clock: VirtualClock, connect: Client) -> Replicas:
    def make(client: Client, name: str) -> Replica:
        config = LeaderElectionConfig(name="web", identity=name)
        elector = LeaderElector(connect, config, clock=clock, random=Random(name))
        return Replica(kcr.Manager(client, clock=clock, random=Random(name), leader_election=elector))

    return make


def sharded(clock: VirtualClock, connect: Client) -> Replicas:
    def make(client: Client, name: str) -> Replica:
        config = LeaderElectionConfig(name="web", identity=name)
        replica = ShardedReplica(same_loop(connect), config, 2, clock=clock, random=Random(name), on_thread=False)
        return Replica(kcr.Manager(client, clock=clock, random=Random(name), leader_election=replica))

    return make


@asynccontextmanager
async def late(cluster: EmbeddedCluster, seconds: float, cut_after: float | None) -> AsyncIterator[LateCreates]:
    """Deliver creates of Secrets late; at the end all that are under way arrive."""
    async with asyncio.TaskGroup() as group:
        yield LateCreates(cluster.transport, group, "secrets", seconds=lambda: seconds, cut_after=cut_after)


async def create_owners(client: Client) -> None:
    for name in OWNERS:
        await client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))


async def children_of(client: Client) -> dict[str, int]:
    """How many children each owner has."""
    children = await client.list(Secret, "default")
    owners = [one.metadata.owner_references[0].name for one in children if one.metadata.owner_references]
    return {name: owners.count(name) for name in OWNERS}


@pytest.mark.parametrize("reconciler", [ChildrenReconciler, ManifestReconciler])
@pytest.mark.parametrize(("seconds", "cut_after"), LATE)
async def test_late_create_makes_one_child(
    kcr_cluster: EmbeddedCluster,
    kcr_clock: VirtualClock,
    seconds: float,
    cut_after: float | None,
    reconciler: Callable[[kcr.Manager], ChildrenReconciler],
) -> None:
    await create_owners(kcr_cluster.client)
    async with late(kcr_cluster, seconds, cut_after) as transport:
        manager = kcr.Manager(Client(transport), clock=kcr_clock, random=Random(1))
        async with running(Replica(manager, reconciler)):
            await kcr_clock.advance(120)
            assert set((await children_of(kcr_cluster.client)).values()) == {WANTED}


@pytest.mark.parametrize("election", ["leading", "sharded"])
@pytest.mark.parametrize(("seconds", "cut_after"), LATE)
@pytest.mark.parametrize("after", [0.05, 3.0])
async def test_replica_that_stops_before_its_creates_are_answered_doubles_no_child(
    kcr_cluster: EmbeddedCluster,
    kcr_clock: VirtualClock,
    election: str,
    seconds: float,
    cut_after: float | None,
    after: float,
) -> None:
    await create_owners(kcr_cluster.client)
    make = {"leading": leading, "sharded": sharded}[election](kcr_clock, kcr_cluster.client)
    async with late(kcr_cluster, seconds, cut_after) as transport:
        async with running(make(Client(transport), "first")):
            await kcr_clock.advance(after)
        async with running(make(kcr_cluster.client, "second")):
            await kcr_clock.advance(120)
            assert set((await children_of(kcr_cluster.client)).values()) == {WANTED}


@pytest.mark.parametrize(("seconds", "cut_after"), LATE)
@pytest.mark.parametrize("after", [0.05, 1.0])
async def test_shards_that_move_before_their_creates_are_answered_double_no_child(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, seconds: float, cut_after: float | None, after: float
) -> None:
    await create_owners(kcr_cluster.client)
    make = sharded(kcr_clock, kcr_cluster.client)
    async with late(kcr_cluster, seconds, cut_after) as transport, running(make(Client(transport), "first")):
        await kcr_clock.advance(after)
        async with running(make(kcr_cluster.client, "second")):
            await kcr_clock.advance(120)
            assert set((await children_of(kcr_cluster.client)).values()) == {WANTED}
