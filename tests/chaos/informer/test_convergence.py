"""Whatever goes wrong, for as long as it likes: once it is over, the world comes to be as wished, and stays so."""

import asyncio
import os
from collections import Counter
from random import Random
from typing import Any

import pytest

import kcr
from kcr.api.core import ConfigMap
from kcr.api.meta import controller_of
from kcr.cluster import EmbeddedCluster
from kcr.errors import ConflictError, GoneError, ServerError, TooManyRequestsError
from kcr.testing import CrashingTransport, FaultyTransport, VirtualClock, unchanged_stores
from kcr.testing.answers import LOSSES
from kcr.testing.faults import Verb
from kcr.testing.loop import VirtualLoop
from tests.kit.replica_controller import OF, is_wish, setup, wish

SEEDS = int(os.environ.get("KCR_SEEDS", "2000"))
NAMES = ("a", "b", "c")
COLORS = ("red", "green", "blue")
# Frozen watches are given up after 90 s, expectations after 300 s, and failed keys wait for 60 s.
PATIENCE_SECONDS = 1200.0
WRITES: tuple[Verb, ...] = ("create", "patch", "delete")


class World:
    """A cluster, and what is wished for in it."""

    def __init__(self, cluster: EmbeddedCluster, clock: VirtualClock, random: Random) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.clock = clock
        self.random = random

    async def wishes(self) -> dict[str, ConfigMap]:
        return {obj.metadata.name: obj for obj in await self.client.list(ConfigMap) if is_wish(obj)}

    async def made(self) -> list[ConfigMap]:
        return [obj for obj in await self.client.list(ConfigMap) if OF in obj.metadata.labels]

    async def is_as_wished(self) -> bool:
        """Each wish has so many, of its color, all its own; and nothing is owned by what is no more."""
        wishes, made = await self.wishes(), await self.made()
        asked = Counter({(w.metadata.uid, w.data["color"]): int(w.data["count"]) for w in wishes.values()})
        # What a hand has taken the owner off, and nobody wishes for any more, is nobody's.
        owned = [obj for obj in made if obj.metadata.owner_references or obj.metadata.labels[OF] in wishes]
        found = Counter((_owner(obj), obj.data["color"]) for obj in owned)
        return found == +asked and not any(w.metadata.deletion_timestamp for w in wishes.values())

    async def meddle(self) -> None:
        """Be users who change their minds, and hands that touch what is not theirs."""
        for _ in range(self.random.randint(3, 12)):
            await asyncio.sleep(self.random.random() * 10)
            action = self.random.choice((self._ask, self._ask, self._drop, self._delete_one, self._strip_one))
            try:
                await action()
            except (kcr.NotFoundError, kcr.AlreadyExistsError, kcr.InvalidError):
                continue

    async def _ask(self) -> None:
        name = self.random.choice(NAMES)
        data = {"count": str(self.random.randint(0, 6)), "color": self.random.choice(COLORS)}
        try:
            await self.client.create(wish(name, data))
        except kcr.AlreadyExistsError:
            await self.client.merge_patch(ConfigMap, kcr.Key("default", name), {"data": data})

    async def _drop(self) -> None:
        await self.client.delete(ConfigMap, kcr.Key("default", self.random.choice(NAMES)))

    async def _delete_one(self) -> None:
        if made := await self.made():
            await self.client.delete(ConfigMap, self.random.choice(made).key)

    async def _strip_one(self) -> None:
        """Take the owner off one; it is to be adopted again."""
        if made := [obj for obj in await self.made() if obj.metadata.labels[OF] in await self.wishes()]:
            none: dict[str, Any] = {"metadata": {"ownerReferences": None}}
            await self.client.merge_patch(ConfigMap, self.random.choice(made).key, none)


def _owner(obj: ConfigMap) -> str:
    owner = controller_of(obj.metadata)
    return "" if owner is None else owner.uid


def troubled(world: World) -> FaultyTransport:
    """A wire on which this seed's faults happen."""
    random = world.random
    faults = FaultyTransport(world.cluster.transport, random=random)
    share = random.choice((0.02, 0.1, 0.3))
    for verb in random.sample(WRITES, random.randint(1, 3)):
        faults.on(verb, chance=share).fail(random.choice((ConflictError, ServerError)))
        faults.on(verb, chance=share).fail(TooManyRequestsError, retry_after_seconds=random.randint(1, 5))
        faults.on(verb, chance=share).lose_reply(random.choice(LOSSES))
        faults.on(verb, chance=share).lose_request(page=random.choice((0, 0, 404, 502)))
    faults.on(chance=share).delay(random.random() * 5)
    faults.on("list", chance=share).fail(random.choice((GoneError, ServerError, TooManyRequestsError)))
    watch = faults.on("watch", ConfigMap, chance=random.random())
    random.choice((
        watch.repeat,
        lambda: watch.cut(after=random.randint(0, 9)),
        lambda: watch.freeze(after=random.randint(0, 9)),
        lambda: watch.lag(random.random() * 5),
        lambda: watch.fail(random.choice((GoneError, TooManyRequestsError, ServerError))),
    ))()  # fmt: skip
    return faults


async def live(world: World, transport: CrashingTransport, seconds: float, *, crash: bool) -> None:
    """Run the controller for a while; then it dies, or is told to end."""
    manager = kcr.Manager(kcr.Client(transport), clock=world.clock, random=Random(world.random.random()))
    setup(manager)

    async def run() -> None:
        try:
            await manager.run()
        except kcr.NotSyncedError:
            # Two minutes of trouble at the start: the process ends, and another one comes.
            return

    async with asyncio.TaskGroup() as group:
        running = group.create_task(run())
        await asyncio.sleep(seconds)
        if crash:
            transport.crash_after(0)
        running.cancel()


async def rest(world: World, transport: FaultyTransport) -> None:
    """Run the controller until trouble is over and all is as wished; then nothing is written any more."""
    manager = kcr.Manager(kcr.Client(transport), clock=world.clock, random=Random(1))
    setup(manager)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(manager.run())
        # Some watches are frozen or late for good by now, and must be given up.
        await asyncio.sleep(world.random.random() * 20)
        transport.heal()
        await manager.wait_ready()
        await converged(world)
        await asyncio.sleep(400)
        quiet = len(transport.calls)
        await asyncio.sleep(30)
        assert not [call for call in transport.calls[quiet:] if call.verb in WRITES], "it never rests"
        assert await world.is_as_wished(), "it did not stay as wished"
        live_objects = {obj.key: obj for obj in await world.client.list(ConfigMap)}
        assert {obj.key: obj for obj in manager.store(ConfigMap).list()} == live_objects
        running.cancel()


async def converged(world: World) -> None:
    loop = asyncio.get_running_loop()
    limit = loop.time() + PATIENCE_SECONDS
    while not await world.is_as_wished():
        assert loop.time() < limit, (await world.wishes(), await world.made())
        await asyncio.sleep(1)


async def suffer(seed: int) -> None:
    random, clock = Random(seed), VirtualClock()
    async with EmbeddedCluster(clock=clock, random=Random(seed), runtime=None) as cluster:
        world = World(cluster, clock, random)
        async with asyncio.TaskGroup() as group:
            group.create_task(world.meddle())
            group.create_task(_forget(world))
            for _ in range(random.randint(0, 3)):
                transport = CrashingTransport(troubled(world))
                transport.crash_after(random.randint(1, 40))
                await live(world, transport, random.random() * 30, crash=random.random() < 0.7)
            faults = troubled(world)
            await live(world, CrashingTransport(faults), 20 + random.random() * 60, crash=False)
        await rest(world, troubled(world) if random.random() < 0.5 else FaultyTransport(cluster.transport))


async def _forget(world: World) -> None:
    """Let the server forget its history now and then: whoever resumes a watch is answered 410."""
    for _ in range(world.random.randint(0, 3)):
        await asyncio.sleep(world.random.random() * 30)
        world.cluster.storage.compact()


def check(seed: int) -> None:  # TK-15, TK-16
    with unchanged_stores(), asyncio.Runner(loop_factory=VirtualLoop) as runner:
        try:
            runner.run(suffer(seed))
            left = [task.get_name() for task in asyncio.all_tasks(runner.get_loop())]
            assert not left, f"tasks left behind: {left}"
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.timeout(60)
@pytest.mark.parametrize("first", range(0, 200, 25))
def test_world_comes_to_be_as_wished(first: int) -> None:
    for seed in range(first, first + 25):
        check(seed)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(8))
def test_world_comes_to_be_as_wished_on_all_seeds(part: int) -> None:
    for seed in range(part, SEEDS, 8):
        check(seed)
