"""`on_own_writes=False`: the event of a reconcile's own write starts no second one, and no other change is missed."""

import asyncio
from random import Random

import pytest
from msgspec.structs import replace

import kcr
from kcr.api.core import ConfigMap, Secret
from kcr.api.meta import Key, ObjectMeta, controller_reference
from kcr.client import Client
from kcr.errors import GoneError, KcrError
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.environment import setting

pytestmark = pytest.mark.kcr_virtual
SEEDS = int(setting("KCR_SEEDS", "1000"))
NAMES = ("a", "b", "c")
FINALIZER = "example.dev/undo"


class Copier:
    """Copies a ConfigMap into a Secret, and notes in an annotation what it has copied."""

    def __init__(self, manager: kcr.Manager, random: Random | None = None) -> None:
        self._client = manager.client
        self._random = random
        self._maps = manager.store(ConfigMap)
        self._secrets = manager.store(Secret)
        self.runs: list[Key] = []
        # What the last reconcile of a name has read.
        self.read: dict[str, tuple[str, str]] = {}

    async def reconcile(self, key: Key) -> kcr.Result:
        self.runs.append(key)
        found, copy = self._maps.get(key), self._secrets.get(key)
        if found is None:
            return kcr.Result()
        wanted, others = found.data.get("text", ""), "" if copy is None else copy.metadata.labels.get("text", "")
        self.read[key.name] = wanted, others
        if copy is None:
            metadata = ObjectMeta(
                name=key.name, namespace=key.namespace, owner_references=(controller_reference(found),)
            )
            await self._client.create(Secret(metadata=metadata, data={"text": wanted.encode()}))
        elif copy.data.get("text", b"").decode() != wanted:
            await self._update(copy, wanted)
        if found.metadata.annotations.get("copied") != wanted:
            annotations = {**found.metadata.annotations, "copied": wanted}
            await self._client.patch(found, replace(found, metadata=replace(found.metadata, annotations=annotations)))
        return kcr.Result()

    async def _update(self, copy: Secret, wanted: str) -> None:
        """Write the copy with a precondition, or, as the seed says, without one."""
        if self._random is None or self._random.random() < 0.5:
            await self._client.patch(copy, replace(copy, data={"text": wanted.encode()}))
        else:
            await self._client.merge_patch(Secret, copy.key, {"stringData": {"text": wanted}})


def controlled(
    client: Client, clock: VirtualClock, random: Random | None = None, *, on_own_writes: bool = False
) -> "Controlled":
    manager = kcr.Manager(client, clock=clock, random=Random(0))
    copier = Copier(manager, random)
    manager.add_controller(
        "copier", copier, watches=[kcr.watch(ConfigMap), kcr.owned(Secret, by=ConfigMap)], on_own_writes=on_own_writes
    )
    return manager, copier


Controlled = tuple[kcr.Manager, Copier]


def config(name: str, text: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data={"text": text})


@pytest.mark.parametrize(("asked", "runs"), [(True, 2), (False, 1)])
async def test_own_writes_start_no_reconcile(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, asked: bool, runs: int
) -> None:
    manager, copier = controlled(kcr_cluster.client, kcr_clock, on_own_writes=asked)
    async with manager.running():
        await kcr_cluster.client.create(config("a", "one"))
        await kcr_clock.advance(60)
        assert len(copier.runs) == runs
        copier.runs.clear()
        # A change of another, of the object and of what it owns.
        await kcr_cluster.client.merge_patch(Secret, Key("default", "a"), {"metadata": {"labels": {"text": "x"}}})
        await kcr_clock.advance(60)
        assert copier.runs == [Key("default", "a")]
        await kcr_cluster.client.merge_patch(ConfigMap, Key("default", "a"), {"data": {"text": "two"}})
        await kcr_clock.advance(60)
        assert len(copier.runs) == 1 + runs
        copy = await kcr_cluster.client.get(Secret, Key("default", "a"))
    assert copy.data == {"text": b"two"}


class Guard:
    """Keeps a finalizer on each ConfigMap."""

    def __init__(self, manager: kcr.Manager) -> None:
        self._client, self._maps = manager.client, manager.store(ConfigMap)
        self.guarded: list[str] = []

    async def reconcile(self, key: Key) -> kcr.Result:
        found = self._maps.get(key)
        if found is not None and await kcr.finalized(self._client, found, FINALIZER, lambda: None):
            self.guarded.append(key.name)
        return kcr.Result()


async def test_new_finalizer_brings_the_key_back(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    manager = kcr.Manager(kcr_cluster.client, clock=kcr_clock, random=Random(0))
    guard = Guard(manager)
    manager.add_controller("guard", guard, watches=[kcr.watch(ConfigMap)], on_own_writes=False)
    async with manager.running():
        await kcr_cluster.client.create(config("a", "one"))
        await kcr_clock.advance(60)
        assert guard.guarded[-1:] == ["a"]
        await kcr_cluster.client.delete(ConfigMap, Key("default", "a"))
        await kcr_clock.advance(60)
        assert await kcr_cluster.client.list(ConfigMap, "default") == ()


async def check_run(cluster: EmbeddedCluster, clock: VirtualClock, seed: int) -> None:
    """Let others write at random over a bad network, and compare what the last reconciles read with what there is."""
    random = Random(seed)
    faults = FaultyTransport(cluster.transport, random=random)
    faults.on("event", Secret, chance=0.3).delay(lambda: random.uniform(0, 2))
    faults.on("event", chance=0.15).draw("delay", "repeat", "cut")
    faults.on("write", chance=0.15).draw("delay", "lose_reply", "409", "503", "lose_request")
    faults.on("watch", chance=0.3).fail(GoneError)
    manager, copier = controlled(Client(faults), clock, random)
    async with manager.running():
        for step in range(random.randint(5, 25)):
            key, text = Key("default", f"{random.choice(NAMES)}{seed}"), f"{step}"
            try:
                match random.randrange(6):
                    case 0:
                        await cluster.client.create(config(key.name, text))
                    case 1:
                        labels = {"labels": {"text": text}}
                        await cluster.client.merge_patch(Secret, key, {"metadata": labels})
                    case 2:  # what the controller would, and more, so that its own write has no effect
                        data = (await cluster.client.get(ConfigMap, key)).data
                        labels = {"labels": {"text": text}}
                        await cluster.client.merge_patch(Secret, key, {"stringData": data, "metadata": labels})
                    case 3:
                        await cluster.client.delete(Secret, key)
                    case _:
                        await cluster.client.merge_patch(ConfigMap, key, {"data": {"text": text}})
            except KcrError:
                continue
            await asyncio.sleep(random.choice((0, 0, 0.001, 0.01, 1)))
        faults.heal()
        await clock.advance(400)
        maps = {one.metadata.name: one for one in await cluster.client.list(ConfigMap, "default")}
        found = {
            name: (maps[name].data["text"], copy.metadata.labels.get("text", ""))
            for copy in await cluster.client.list(Secret, "default")
            if (name := copy.metadata.name) in maps and name.endswith(str(seed))
        }
    assert {name: copier.read.get(name) for name in found} == found
    assert {maps[name].metadata.annotations["copied"] for name in found} == {text for text, _ in found.values()}


@pytest.mark.parametrize("seed", [*range(8), 62])  # at 62 a write that had no effect shows that of another
async def test_no_change_of_others_is_missed(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, seed: int) -> None:
    await check_run(kcr_cluster, kcr_clock, seed)


@pytest.mark.soak
async def test_no_change_of_others_is_missed_in_a_thousand_runs(kcr_clock: VirtualClock) -> None:
    for seed in range(8, SEEDS):
        async with EmbeddedCluster(clock=kcr_clock, random=Random(seed), runtime=None) as cluster:
            await check_run(cluster, kcr_clock, seed)
