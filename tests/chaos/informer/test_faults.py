"""An informer whose server and network fail in every way they can; in the end it knows the truth."""

import asyncio
from collections.abc import Iterable
from random import Random

import pytest
from msgspec.structs import replace

from kcr.api.core import ConfigMap
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client
from kcr.informer import Handler, Informer, Selection
from kcr.testing import VirtualClock
from kcr_devcluster.apiserver.server import APIServer
from kcr_devcluster.apiserver.storage.storage import Storage
from kcr_devcluster.transport import InProcessTransport
from tests.chaos.random_faults import RandomFaults
from tests.kit.environment import setting

pytestmark = pytest.mark.kcr_virtual

QUICK = 25
# Namespaces that every server has.
KEYS = [Key(namespace, name) for namespace in ("default", "kube-public", "kube-system") for name in "abc"]
# All in one watch, one namespace, or a watch for each of some namespaces and one for the others (IN-37).
SELECTIONS: tuple[tuple[Selection[ConfigMap], ...], ...] = (
    (Selection(ConfigMap),),
    (Selection(ConfigMap, "default"),),
    (Selection(ConfigMap, "default"), Selection(ConfigMap, "kube-public"), Selection(ConfigMap)),
)
CHANGES = 40


class KnownObjects(Handler[ConfigMap]):
    """What a handler knows; every call must fit the calls before (IN-1)."""

    def __init__(self) -> None:
        self.known: dict[Key, ConfigMap] = {}

    def on_add(self, obj: ConfigMap, initial: bool) -> None:
        assert obj.key not in self.known
        self.known[obj.key] = obj

    def on_update(self, old: ConfigMap, new: ConfigMap) -> None:
        assert self.known[new.key] == old
        assert old.metadata.uid == new.metadata.uid
        assert int(old.metadata.resource_version) < int(new.metadata.resource_version)
        self.known[new.key] = new

    def on_delete(self, obj: ConfigMap, final_state_unknown: bool) -> None:
        assert self.known.pop(obj.key).metadata.uid == obj.metadata.uid


class Run:
    """One life of an informer, all of it chosen by a seed."""

    def __init__(self, seed: int, clock: VirtualClock) -> None:
        self.random = Random(seed)
        self.clock = clock
        self.storage = Storage()
        transport = InProcessTransport(APIServer(self.storage, clock=clock, random=Random(seed)))
        self.client = Client(transport)
        self.faults = RandomFaults(transport, Random(seed))
        self.selections = SELECTIONS[seed % len(SELECTIONS)]
        self.informer = Informer(Client(self.faults), self.selections, random=Random(seed))
        # What is on the server.
        self.there: dict[Key, ConfigMap] = {}
        self.observers = [KnownObjects(), KnownObjects()]
        self.informer.add_handler(self.observers[0])
        self.informer.add_handler(self.observers[1])

    async def live(self) -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.informer.run())
            for _ in range(CHANGES):
                await asyncio.sleep(self.random.choice((0.0, 0.1, 5.0, 40.0)))
                await self.change()
            self.faults.is_over = True
            for _ in range(40):
                await self.clock.advance(60)
                if self.is_right():
                    break
            await self.check()
            task.cancel()

    async def change(self) -> None:
        """Change one object, or let the server forget what has changed, or add a handler."""
        key = self.random.choice(KEYS)
        there = self.there.get(key)
        match self.random.randrange(20):
            case 0:
                self.storage.compact()
            case 1 if len(self.observers) < 9:
                self.observers.append(KnownObjects())
                self.informer.add_handler(self.observers[-1])
            case _ if there is None:
                await self.create(key)
            case number if number < 8:
                await self.client.delete(ConfigMap, key)
                del self.there[key]
                if number % 2:
                    await self.create(key)
            case _:
                data = {"value": str(self.random.random())}
                self.there[key] = await self.client.patch(there, replace(there, data=data))

    async def create(self, key: Key) -> None:
        metadata = ObjectMeta(namespace=key.namespace, name=key.name)
        self.there[key] = await self.client.create(ConfigMap(metadata=metadata))

    def covered(self, objects: Iterable[ConfigMap]) -> dict[Key, ConfigMap]:
        namespaces = {selection.namespace for selection in self.selections}
        return {found.key: found for found in objects if "" in namespaces or found.key.namespace in namespaces}

    def is_right(self) -> bool:
        if not self.informer.store.synced:
            return False
        truth = self.covered(self.there.values())
        known = {found.key: found for found in self.informer.store.list()}
        return known == truth and all(observer.known == truth for observer in self.observers)

    async def check(self) -> None:
        truth = self.covered(await self.client.list(ConfigMap))
        assert self.informer.store.synced, self.informer.not_synced_reason
        assert {found.key: found for found in self.informer.store.list()} == truth
        for observer in self.observers:
            assert observer.known == truth
        assert self.informer.counts["handler_errors"] == 0
        assert self.informer.store.resource_version <= self.storage.revision


async def outlive(seeds: range, clock: VirtualClock) -> dict[str, int]:
    """Run seed after seed, and return what went wrong how often in them."""
    seen: dict[str, int] = {}
    for seed in seeds:
        run = Run(seed, clock)
        try:
            await run.live()
        except BaseExceptionGroup as group:
            raise AssertionError(f"seed {seed}: {group.exceptions[0]!r}") from group
        for what, times in {**run.faults.seen, **run.informer.counts}.items():
            seen[what] = seen.get(what, 0) + times
    return seen


# RF-2, RF-17, RF-19, IN-1, IN-3, IN-12
async def test_store_and_handlers_know_the_truth_after_any_fault(kcr_clock: VirtualClock) -> None:
    seen = await outlive(range(QUICK), kcr_clock)
    every = ("lost reply", "refused", "busy", "broken", "expired", "cut", "torn", "frozen", "duplicated", "ended")
    assert all(seen.get(what) for what in every), seen
    assert seen["idle"] and seen["relists"] and seen["lists"] and seen["streams"]


@pytest.mark.soak
async def test_store_and_handlers_know_the_truth_for_as_many_seeds_as_asked(kcr_clock: VirtualClock) -> None:
    await outlive(range(QUICK, QUICK + int(setting("KCR_SEEDS", "2000"))), kcr_clock)
