"""The breaker of a key under sharding: a slowed key that is handed over, and replicas that come and go, by seed."""

import asyncio
from collections import defaultdict
from contextlib import suppress
from random import Random

import pytest
from structlog.testing import capture_logs

import kcr
from kcr.api.core import ConfigMap
from kcr.api.meta import ObjectMeta
from kcr.api.slots import shard_of, slot_of
from kcr.client import Client
from kcr.controller.observers.breaker import CALM_SECONDS, SLOW_SECONDS
from kcr.errors import LeadershipLostError
from kcr.scopes.leaderelection import LeaderElectionConfig
from kcr.scopes.sharding import ShardedReplica
from kcr.testing import CrashingTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.replicas import running, same_loop

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]

SHARDS = 4
# The walls that another writer paints as well; those whose changes nobody answers; those that are painted once.
HOT, BUSY, CALM = ("hot-0", "hot-1", "hot-2"), ("busy-0", "busy-1"), ("calm-0", "calm-1")
# A hot key is slowed after about a quarter of a minute of a replica's own.
SLOWED_AFTER = 30.0


class Replica:
    """A process whose controller paints walls red, and which may be killed."""

    def __init__(self, cluster: EmbeddedCluster, clock: VirtualClock, name: str) -> None:
        self.wire = CrashingTransport(cluster.transport)
        config = LeaderElectionConfig(name="web", identity=name)
        connect = same_loop(Client(self.wire))
        self.replica = ShardedReplica(connect, config, SHARDS, clock=clock, random=Random(name), on_thread=False)
        self.manager = kcr.Manager(Client(self.wire), clock=clock, random=Random(name), leader_election=self.replica)
        self.walls = self.manager.store(ConfigMap)
        self.controller = self.manager.add_controller("painter", self, watches=[kcr.watch(ConfigMap)], breaker=12)
        self.times: dict[str, list[float]] = defaultdict(list)

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        self.times[key.name].append(now())
        wall = self.walls.get(key)
        if wall is not None and key.name not in BUSY and wall.data.get("color") != "red":
            await self.manager.client.merge_patch(ConfigMap, key, {"data": {"color": "red"}})
        return kcr.Result()

    async def run(self) -> None:
        with suppress(LeadershipLostError):
            await self.manager.run()

    def holds(self, wall: ConfigMap) -> bool:
        return shard_of(slot_of(wall.metadata), SHARDS) in self.replica.shards.held

    def slows(self, name: str) -> bool:
        found = self.controller.hot_loop(kcr.Key("default", name), now())
        return found is not None and "slowed" in found.event

    @property
    def counted(self) -> float:
        labels = {"controller": "painter"}
        return self.manager.metrics.registry.get_sample_value("kcr_slowed_keys", labels) or 0.0

    def since(self, name: str, seconds: float) -> int:
        return sum(time > now() - seconds for time in self.times[name])


def now() -> float:
    return asyncio.get_running_loop().time()


async def build_walls(cluster: EmbeddedCluster) -> dict[str, ConfigMap]:
    made = [ConfigMap(metadata=ObjectMeta(name=name, namespace="default")) for name in (*HOT, *BUSY, *CALM)]
    return {wall.metadata.name: await cluster.client.create(wall) for wall in made}


async def paint(cluster: EmbeddedCluster) -> None:
    """Turn hot walls blue, and change the busy ones, five times a second."""
    outside, number = cluster.client.with_options(field_manager="outside"), 0
    while True:
        await asyncio.sleep(0.2)
        number += 1
        for name in (*HOT, *BUSY):
            change = {"color": "blue"} if name in HOT else {"number": str(number)}
            await outside.merge_patch(ConfigMap, kcr.Key("default", name), {"data": change})


async def test_slowed_key_that_is_handed_over_starts_with_a_full_bucket(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    walls = await build_walls(kcr_cluster)
    first, second = (Replica(kcr_cluster, kcr_clock, name) for name in "ab")
    async with running(first), asyncio.TaskGroup() as group:
        painting = group.create_task(paint(kcr_cluster))
        await kcr_clock.advance(SLOWED_AFTER)
        assert [name for name in walls if first.slows(name)] == [*HOT]
        assert first.counted == len(HOT)
        with capture_logs() as logs:
            async with running(second):
                await kcr_clock.advance(2)
                moved = [name for name in HOT if second.holds(walls[name])]
                kept = [name for name in HOT if name not in moved]
                assert moved
                assert kept
                # The first one has forgotten those that are gone, and says so once.
                assert [name for name in HOT if first.slows(name)] == kept
                assert first.counted == len(kept)
                assert [line["name"] for line in logs if line["event"] == "no longer slowed"] == moved
                # They are reconciled at once, by the second one alone, until it slows them as well.
                assert all(second.since(name, 1) >= 4 for name in moved)
                assert second.counted == 0
                await kcr_clock.advance(SLOWED_AFTER)
                assert [name for name in walls if second.slows(name)] == moved
                assert all(second.since(name, SLOW_SECONDS) <= 1 for name in moved)
                assert all(first.since(name, SLOW_SECONDS) <= 1 for name in kept)
                assert not any(first.since(name, 30) for name in moved)
            # It is stopped: the first one takes them back, as new.
            await kcr_clock.advance(2)
            assert all(first.since(name, 1) >= 4 for name in moved)
            assert [name for name in HOT if first.slows(name)] == kept
        await kcr_clock.advance(SLOWED_AFTER)
        assert first.counted == len(HOT)
        painting.cancel()
        await kcr_clock.advance(SLOW_SECONDS + CALM_SECONDS + 5)
        assert first.counted == 0


class Story:
    """Replicas that join, are stopped and are killed, while hot walls are painted."""

    def __init__(self, cluster: EmbeddedCluster, clock: VirtualClock, seed: int) -> None:
        self.cluster, self.clock, self.random = cluster, clock, Random(seed)
        self.walls: dict[str, ConfigMap] = {}
        self.living: list[Replica] = []
        self.started = 0
        self.wrongs: list[str] = []
        # Since when a replica holds a wall, by both.
        self.since: dict[tuple[Replica, str], float] = {}
        self.slowed = 0
        self.is_painted = True

    async def live(self, group: asyncio.TaskGroup, seconds: float | None) -> None:
        """Run one replica, for some seconds; None for ever."""
        self.started += 1
        replica = Replica(self.cluster, self.clock, f"replica-{self.started}")
        self.living.append(replica)
        task = group.create_task(replica.run())
        if seconds is None:
            self.stays = task
            return
        await asyncio.sleep(seconds)
        self.living.remove(replica)
        if self.random.random() < 0.5:
            replica.wire.crash_after(0)
        task.cancel()

    async def come_and_go(self, group: asyncio.TaskGroup) -> None:
        for _ in range(3):
            await asyncio.sleep(self.random.random() * 15)
            await self.live(group, self.random.choice((5.0, 25.0, 50.0)) * (0.5 + self.random.random()))

    async def judge(self) -> None:
        """Compare each second what each replica says with what it holds."""
        while True:
            await asyncio.sleep(1)
            for replica in self.living:
                slows = [name for name in self.walls if replica.slows(name)]
                self.slowed += len(slows)
                if replica.counted != len(slows):
                    self.wrongs.append(f"{now()}: counts {replica.counted}, and slows {slows}")
                for name, wall in self.walls.items():
                    self._judge(replica, name, wall, is_slowed=name in slows)

    def _judge(self, replica: Replica, name: str, wall: ConfigMap, *, is_slowed: bool) -> None:
        if not replica.holds(wall):
            self.since.pop((replica, name), None)
            if is_slowed:
                self.wrongs.append(f"{now()}: slows {name}, and does not hold it")
            return
        held = now() - self.since.setdefault((replica, name), now())
        if is_slowed and name not in HOT:
            self.wrongs.append(f"{now()}: slows {name}, which has no own writes")
        if name in HOT and self.is_painted and held > SLOWED_AFTER and not is_slowed:
            self.wrongs.append(f"{now()}: {name} is not slowed after {held} s")
        if is_slowed and held > SLOWED_AFTER + 30 and replica.since(name, 30) > 30 / SLOW_SECONDS:
            self.wrongs.append(f"{now()}: {name} is slowed, and reconciled {replica.since(name, 30)} times in 30 s")

    async def end(self) -> None:
        """Without another writer all is calm, and no change is missed."""
        await self.clock.advance(SLOW_SECONDS + CALM_SECONDS + 5)
        for name in self.walls:
            change = {"data": {"color": "green"}}
            await self.cluster.client.merge_patch(ConfigMap, kcr.Key("default", name), change)
        await self.clock.advance(1)
        for wall in await self.cluster.client.list(ConfigMap, "default"):
            if wall.metadata.name in (*HOT, *CALM) and wall.data["color"] != "red":
                self.wrongs.append(f"{wall.metadata.name} is {wall.data['color']}")
        self.wrongs += [f"{replica.counted} keys are slowed" for replica in self.living if replica.counted]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 30))])
async def test_only_the_holder_slows_a_key_whoever_comes_and_goes(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, seed: int
) -> None:
    story = Story(kcr_cluster, kcr_clock, seed)
    story.walls = await build_walls(kcr_cluster)
    async with asyncio.TaskGroup() as group:
        await story.live(group, None)
        painting, judging = group.create_task(paint(kcr_cluster)), group.create_task(story.judge())
        coming = group.create_task(story.come_and_go(group))
        await kcr_clock.advance(80)
        story.is_painted = False
        painting.cancel()
        await coming
        await kcr_clock.advance(20)
        judging.cancel()
        await story.end()
        story.stays.cancel()
    assert story.wrongs == []
    assert story.slowed
