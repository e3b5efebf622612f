"""A controller on `kcr.dependents` converges, whatever faults and crashes there were, and then writes nothing."""

import asyncio
from collections import Counter
from random import Random
from typing import Any

import pytest

import kcr
from examples.expectations.controller import OF, is_owner, owner, setup
from kcr.api.core import ConfigMap
from kcr.api.meta import controller_of
from kcr.errors import ConflictError, GoneError, ServerError, TooManyRequestsError
from kcr.testing import CrashingTransport, FaultyTransport, VirtualClock, unchanged_stores
from kcr_devcluster.calls import Verb
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.loop import VirtualLoop
from kcr_devcluster.testing.losses import LOSSES
from tests.kit.environment import setting

SEEDS = int(setting("KCR_SEEDS", "2000"))
NAMES = ("a", "b", "c")
COLORS = ("red", "green", "blue")
# Frozen watches are given up after 90 s, expectations after 300 s, and failed keys wait for 60 s.
PATIENCE_SECONDS = 1200.0
WRITES: tuple[Verb, ...] = ("create", "patch", "delete")


class Users:
    """The users of a cluster, who ask for replicas and change their minds."""

    def __init__(self, cluster: EmbeddedCluster, clock: VirtualClock, random: Random) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.clock = clock
        self.random = random

    async def owners(self) -> dict[str, ConfigMap]:
        return {obj.metadata.name: obj for obj in await self.client.list(ConfigMap) if is_owner(obj)}

    async def made(self) -> list[ConfigMap]:
        return [obj for obj in await self.client.list(ConfigMap) if OF in obj.metadata.labels]

    async def has_converged(self) -> bool:
        """Each owner has so many, of its color, all its own; and nothing is owned by what is no more."""
        owners, made = await self.owners(), await self.made()
        asked = Counter({(w.metadata.uid, w.data["color"]): int(w.data["count"]) for w in owners.values()})
        # One whose owner reference a user has removed, and whose owner is gone, belongs to none.
        owned = [obj for obj in made if obj.metadata.owner_references or obj.metadata.labels[OF] in owners]
        found = Counter((_owner(obj), obj.data["color"]) for obj in owned)
        return found == +asked and not any(w.metadata.deletion_timestamp for w in owners.values())

    async def act(self) -> None:
        """Change the owners, and delete or orphan replicas."""
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
            await self.client.create(owner(name, data))
        except kcr.AlreadyExistsError:
            await self.client.merge_patch(ConfigMap, kcr.Key("default", name), {"data": data})

    async def _drop(self) -> None:
        await self.client.delete(ConfigMap, kcr.Key("default", self.random.choice(NAMES)))

    async def _delete_one(self) -> None:
        if made := await self.made():
            await self.client.delete(ConfigMap, self.random.choice(made).key)

    async def _strip_one(self) -> None:
        """Take the owner off one; it is to be adopted again."""
        if made := [obj for obj in await self.made() if obj.metadata.labels[OF] in await self.owners()]:
            none: dict[str, Any] = {"metadata": {"ownerReferences": None}}
            await self.client.merge_patch(ConfigMap, self.random.choice(made).key, none)


def _owner(obj: ConfigMap) -> str:
    owner = controller_of(obj.metadata)
    return "" if owner is None else owner.uid


def faulty(users: Users) -> FaultyTransport:
    """A wire on which this seed's faults happen."""
    random = users.random
    faults = FaultyTransport(users.cluster.transport, random=random)
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


async def live(users: Users, transport: CrashingTransport, seconds: float, *, crash: bool) -> None:
    """Run the controller for a while; then it dies, or is told to end."""
    manager = kcr.Manager(kcr.Client(transport), clock=users.clock, random=Random(users.random.random()))
    setup(manager)

    async def run() -> None:
        try:
            await manager.run()
        except kcr.NotSyncedError:
            # Two minutes of faults at the start: the process ends, and another one comes.
            return

    async with asyncio.TaskGroup() as group:
        running = group.create_task(run())
        await asyncio.sleep(seconds)
        if crash:
            transport.crash_after(0)
        running.cancel()


async def rest(users: Users, transport: FaultyTransport) -> None:
    """Run the controller until the faults are over and it has converged; then it writes nothing any more."""
    manager = kcr.Manager(kcr.Client(transport), clock=users.clock, random=Random(1))
    setup(manager)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(manager.run())
        # Some watches are frozen or late for good by now, and must be given up.
        await asyncio.sleep(users.random.random() * 20)
        transport.heal()
        await manager.wait_ready()
        await converged(users)
        await asyncio.sleep(400)
        quiet = len(transport.calls)
        await asyncio.sleep(30)
        assert not [call for call in transport.calls[quiet:] if call.verb in WRITES], "it never rests"
        assert await users.has_converged(), "it did not stay converged"
        live_objects = {obj.key: obj for obj in await users.client.list(ConfigMap)}
        assert {obj.key: obj for obj in manager.store(ConfigMap).list()} == live_objects
        running.cancel()


async def converged(users: Users) -> None:
    loop = asyncio.get_running_loop()
    limit = loop.time() + PATIENCE_SECONDS
    while not await users.has_converged():
        assert loop.time() < limit, (await users.owners(), await users.made())
        await asyncio.sleep(1)


async def converge(seed: int) -> None:
    random, clock = Random(seed), VirtualClock()
    async with EmbeddedCluster(clock=clock, random=Random(seed), runtime=None) as cluster:
        users = Users(cluster, clock, random)
        async with asyncio.TaskGroup() as group:
            group.create_task(users.act())
            group.create_task(_forget(users))
            for _ in range(random.randint(0, 3)):
                transport = CrashingTransport(faulty(users))
                transport.crash_after(random.randint(1, 40))
                await live(users, transport, random.random() * 30, crash=random.random() < 0.7)
            faults = faulty(users)
            await live(users, CrashingTransport(faults), 20 + random.random() * 60, crash=False)
        await rest(users, faulty(users) if random.random() < 0.5 else FaultyTransport(cluster.transport))


async def _forget(users: Users) -> None:
    """Let the server forget its history now and then: whoever resumes a watch is answered 410."""
    for _ in range(users.random.randint(0, 3)):
        await asyncio.sleep(users.random.random() * 30)
        users.cluster.storage.compact()


def check(seed: int) -> None:  # TK-15, TK-16
    with unchanged_stores(), asyncio.Runner(loop_factory=VirtualLoop) as runner:
        try:
            runner.run(converge(seed))
            left = [task.get_name() for task in asyncio.all_tasks(runner.get_loop())]
            assert not left, f"tasks left behind: {left}"
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.timeout(60)
def test_cluster_converges_after_faults_and_crashes() -> None:
    for seed in range(8):
        check(seed)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(8))
def test_cluster_converges_after_faults_and_crashes_on_all_seeds(part: int) -> None:
    for seed in range(part, SEEDS, 8):
        check(seed)
