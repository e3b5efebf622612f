"""A replica that stood still: it writes nothing at first, and ends if another one has written its Leases (CM-66)."""

from collections.abc import Callable
from datetime import timedelta
from random import Random

import pytest
from msgspec.structs import replace

import kcr
from kcr.api.coordination import Lease
from kcr.api.core import ConfigMap
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client
from kcr.errors import LeadershipLostError, ServerError
from kcr.scopes.leaderelection import LeaderElectionConfig
from kcr.scopes.sharding import ShardedReplica
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.clocks import ShiftedClock
from tests.kit.replicas import running, same_loop

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]

NAMES = [f"config-{number}" for number in range(8)]


class Marker:
    """Marks each ConfigMap."""

    def __init__(self, manager: kcr.Manager) -> None:
        self.refused = 0
        self._client, self._configs = manager.client, manager.store(ConfigMap)

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        config = self._configs.get(key)
        if config is None or key.name not in NAMES:
            return kcr.Result()
        try:
            await self._client.merge_patch(ConfigMap, key, {"data": {"marked": "yes"}})
        except LeadershipLostError:
            self.refused += 1
            raise
        return kcr.Result()


class Replica:
    """A process with a share of the shards, and a clock of its own."""

    def __init__(self, cluster: EmbeddedCluster, clock: VirtualClock, name: str) -> None:
        self.clock, self.wire = ShiftedClock(clock), FaultyTransport(cluster.transport)
        config = LeaderElectionConfig(name="job", identity=name)
        connect = same_loop(Client(self.wire))
        self.election = ShardedReplica(connect, config, 8, clock=self.clock, random=Random(name), on_thread=False)
        self.manager = kcr.Manager(
            Client(cluster.transport), clock=self.clock, random=Random(name), leader_election=self.election
        )
        self.marker = Marker(self.manager)
        self.manager.add_controller("marker", self.marker, watches=[kcr.watch(ConfigMap)])
        self.failure: Exception | None = None

    async def run(self) -> None:
        try:
            await self.manager.run()
        except Exception as error:
            self.failure = error


async def marked(cluster: EmbeddedCluster) -> set[str]:
    return {one.metadata.name for one in await cluster.client.list(ConfigMap, "default") if "marked" in one.data}


async def give(cluster: EmbeddedCluster, shard: int, holder: str) -> None:
    """Write a Lease as another replica does."""
    lease = await cluster.client.get(Lease, Key("default", f"job-shard-{shard}"))
    await cluster.client.update(replace(lease, spec=replace(lease.spec, holder_identity=holder)))


def by_boottime(clock: ShiftedClock) -> None:
    clock.suspended = 60


def by_wall_clock(clock: ShiftedClock) -> None:
    clock.by = timedelta(seconds=60)


@pytest.mark.parametrize("stand_still", [by_boottime, by_wall_clock])
@pytest.mark.parametrize(
    ("taken", "holder"),
    [
        pytest.param((), "", id="none-was-taken"),
        pytest.param(range(8), "other", id="all-were-taken"),
        pytest.param((5,), "other", id="one-was-taken"),
        pytest.param((5,), "", id="one-was-taken-and-released"),
    ],
)
async def test_woken_replica_writes_nothing_until_it_knows_its_leases(
    kcr_cluster: EmbeddedCluster,
    kcr_clock: VirtualClock,
    taken: tuple[int, ...],
    holder: str,
    stand_still: Callable[[ShiftedClock], None],
) -> None:
    one = Replica(kcr_cluster, kcr_clock, "a")
    async with running(one):
        # Two thirds of a retry period after a renewal, at most.
        await kcr_clock.advance(3)
        stand_still(one.clock)
        for shard in taken:
            await give(kcr_cluster, shard, holder)
        for name in NAMES:
            await kcr_cluster.client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))
        await kcr_clock.settle()
        assert one.marker.refused == len(NAMES)
        assert await marked(kcr_cluster) == set()
        await kcr_clock.advance(2)
        if not taken:
            # Its writes are tried again.
            await kcr_clock.advance(5)
            assert await marked(kcr_cluster) == set(NAMES)
        else:
            assert isinstance(one.failure, LeadershipLostError)
            assert f"{holder or 'no replica'} has it instead of a" in str(one.failure)
            await kcr_clock.advance(5)
            assert await marked(kcr_cluster) == set()


@pytest.mark.parametrize(("seconds", "is_lost"), [(5, False), (20, True)])
async def test_woken_replica_tries_to_renew_for_the_renew_deadline(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, seconds: float, is_lost: bool
) -> None:
    one = Replica(kcr_cluster, kcr_clock, "a")
    async with running(one):
        await kcr_clock.advance(3)
        by_boottime(one.clock)
        # Its connections were closed meanwhile.
        one.wire.on("update", Lease).fail(ServerError)
        await kcr_clock.advance(seconds)
        one.wire.heal()
        await kcr_clock.advance(3)
        assert isinstance(one.failure, LeadershipLostError) is is_lost
        if not is_lost:
            assert len(one.election.shards.held) == 8


async def test_woken_replica_without_shards_goes_on(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    replicas = [Replica(kcr_cluster, kcr_clock, name) for name in "abcdefghi"]
    async with running(*replicas):
        await kcr_clock.advance(5)
        (standby,) = [one for one in replicas if not one.election.shards.held]
        by_boottime(standby.clock)
        await kcr_clock.advance(60)
        assert standby.failure is None
        assert [len(one.election.shards.held) for one in replicas].count(1) == 8
