"""Creates that arrive late or have no answer: one child for each that is wanted, also after a hand-over (CL-21)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import NamedTuple

import pytest

import kcr
from kcr.api.core import ConfigMap, Secret
from kcr.api.meta import Key, ObjectMeta, Resource
from kcr.client import Client
from kcr.scopes.leaderelection import LeaderElectionConfig, LeaderElector
from kcr.scopes.sharding import ShardedReplica
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.late_creates import LateCreates
from tests.kit.replicas import running, same_loop

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]

OWNERS = [f"owner-{number}" for number in range(6)]
WANTED = 2


class Lateness(NamedTuple):
    """How late creates arrive, and when the connection of their sender is cut; whether it gets an answer at all."""

    seconds: float
    cut_after: float | None = None
    is_answered: bool = True


LATE = [
    pytest.param(Lateness(4.0), id="answered-late"),
    pytest.param(Lateness(2.0, 0.3), id="cut-before"),
    pytest.param(Lateness(4.0, 0.1), id="cut-long-before"),
    pytest.param(Lateness(0.1, 0.1), id="cut-meanwhile"),
    pytest.param(Lateness(0.1, is_answered=False), id="never-answered"),
]


class ChildrenReconciler:
    """Creates two Secrets for each ConfigMap, by `generateName`; written as in the guide."""

    own_writes: kcr.OwnWrites | bool = True

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


class ByHandReconciler(ChildrenReconciler):
    """The same, with names that it draws, and an `OwnWrites` in which it records each create before it is sent."""

    def __init__(self, manager: kcr.Manager) -> None:
        super().__init__(manager)
        self.own_writes: kcr.OwnWrites = kcr.OwnWrites()
        self._random = manager.random

    async def reconcile(self, key: Key) -> kcr.Result:
        owner = self._owners.get(key)
        if owner is None or key.name not in OWNERS:
            self.own_writes.forget(key)
            return kcr.Result()
        for pending in tuple(self.own_writes.of(owner).creates.values()):
            # Under its name: it may still arrive.
            if not await self._find(owner, pending.key):
                await self._send(owner, pending)
        if self.own_writes.is_stale(key):
            return kcr.Result(requeue_after=0.1)
        return await super().reconcile(key)

    async def _create(self, owner: ConfigMap) -> None:
        name = f"{owner.metadata.name}-{self._random.getrandbits(32):08x}"
        metadata = ObjectMeta(name=name, namespace=owner.metadata.namespace)
        await self._send(owner, kcr.set_controller(Secret(metadata=metadata), owner))

    async def _send(self, owner: ConfigMap, child: Resource) -> None:
        self.own_writes.of(owner).creates[child.key] = child
        try:
            self._created(owner, await self._client.create(child))
        except kcr.AlreadyExistsError:
            await self._find(owner, child.key)

    async def _find(self, owner: ConfigMap, key: Key) -> bool:
        try:
            self._created(owner, await self._client.get(Secret, key))
        except kcr.NotFoundError:
            return False
        return True

    def _created(self, owner: ConfigMap, child: Resource) -> None:
        self.own_writes.wrote(owner.key, self._children, child)
        del self.own_writes.of(owner).creates[child.key]


class ControlReconciler(ChildrenReconciler):
    """The same, with a `DependentControl`, which draws the names."""

    def __init__(self, manager: kcr.Manager) -> None:
        super().__init__(manager)
        self.own_writes: kcr.OwnWrites = kcr.OwnWrites()
        self._control = kcr.DependentControl(
            manager.client, manager.recorder("children"), Secret,
            store=self._children, own_writes=self.own_writes, random=manager.random,
        )  # fmt: skip

    async def reconcile(self, key: Key) -> kcr.Result:
        owner = self._owners.get(key)
        if owner is None or key.name not in OWNERS:
            self.own_writes.forget(key)
            return kcr.Result()
        there = self._children.by_index("owner", owner.metadata.uid)
        created = await self._control.create(
            owner, Secret(metadata=ObjectMeta(labels={"of": key.name})), WANTED - len(there)
        )
        if created.error is not None:
            raise created.error
        return kcr.Result()


class FixedNamesReconciler(ChildrenReconciler):
    """Two Secrets with names that follow from the owner, by `Children`."""

    def __init__(self, manager: kcr.Manager) -> None:
        super().__init__(manager)
        self.own_writes: kcr.OwnWrites = kcr.OwnWrites()
        informers = [manager.informer(Secret)]
        self._control = kcr.Children(
            manager.client, manager.recorder("children"), informers, own_writes=self.own_writes
        )

    async def reconcile(self, key: Key) -> kcr.Result:
        owner = self._owners.get(key)
        if owner is None or key.name not in OWNERS:
            self.own_writes.forget(key)
            return kcr.Result()
        names = (f"{key.name}-{number}" for number in range(WANTED))
        wanted = [Secret(metadata=ObjectMeta(name=name, namespace=key.namespace)) for name in names]
        await self._control.ensure(owner, wanted)
        return kcr.Result()


# In each form that the guide has; `make test` has one case of each with an `OwnWrites` of its own.
FORMS = [ChildrenReconciler, ManifestReconciler, ByHandReconciler, ControlReconciler, FixedNamesReconciler]
_ALWAYS = [pytest.param(ChildrenReconciler, *case.values, id=f"default-{case.id}") for case in LATE]
CASES = _ALWAYS + [
    pytest.param(
        form, *case.values, id=f"{form.__name__}-{case.id}",
        marks=[] if case.id == "cut-before" and form is not ManifestReconciler else pytest.mark.soak,
    )
    for form in FORMS[1:]
    for case in LATE
]  # fmt: skip
Form = type[ChildrenReconciler]
Replicas = Callable[[Client, str], "Replica"]


class Replica:
    """A process with the controller."""

    def __init__(
        self,
        manager: kcr.Manager,
        reconciler: Form = ChildrenReconciler,
    ) -> None:
        self.manager = manager
        watches = [kcr.watch(ConfigMap), kcr.owned(Secret, by=ConfigMap)]
        made = reconciler(manager)
        manager.add_controller(
            "children", made, watches=watches, workers=len(OWNERS), own_writes=getattr(made, "own_writes", True)
        )

    async def run(self) -> None:
        await self.manager.run()


def leading(clock: VirtualClock, connect: Client, form: Form) -> Replicas:
    def make(client: Client, name: str) -> Replica:
        config = LeaderElectionConfig(name="web", identity=name)
        elector = LeaderElector(connect, config, clock=clock, random=Random(name))
        return Replica(kcr.Manager(client, clock=clock, random=Random(name), leader_election=elector), form)

    return make


def sharded(clock: VirtualClock, connect: Client, form: Form) -> Replicas:
    def make(client: Client, name: str) -> Replica:
        config = LeaderElectionConfig(name="web", identity=name)
        replica = ShardedReplica(same_loop(connect), config, 2, clock=clock, random=Random(name), on_thread=False)
        return Replica(kcr.Manager(client, clock=clock, random=Random(name), leader_election=replica), form)

    return make


@asynccontextmanager
async def late(cluster: EmbeddedCluster, lateness: Lateness) -> AsyncIterator[LateCreates]:
    """Deliver creates of Secrets late; at the end all that are under way arrive."""
    async with asyncio.TaskGroup() as group:
        yield LateCreates(
            cluster.transport, group, "secrets",
            seconds=lambda: lateness.seconds, cut_after=lateness.cut_after, is_answered=lateness.is_answered,
        )  # fmt: skip


async def create_owners(client: Client) -> None:
    for name in OWNERS:
        await client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))


async def children_of(client: Client) -> dict[str, int]:
    """How many children each owner has."""
    children = await client.list(Secret, "default")
    owners = [one.metadata.owner_references[0].name for one in children if one.metadata.owner_references]
    return {name: owners.count(name) for name in OWNERS}


@pytest.mark.parametrize(("form", "lateness"), CASES)
async def test_late_create_makes_one_child(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, form: Form, lateness: Lateness
) -> None:
    await create_owners(kcr_cluster.client)
    async with late(kcr_cluster, lateness) as transport:
        manager = kcr.Manager(Client(transport), clock=kcr_clock, random=Random(1))
        async with running(Replica(manager, form)):
            await kcr_clock.advance(120)
            assert set((await children_of(kcr_cluster.client)).values()) == {WANTED}


@pytest.mark.parametrize("election", ["leading", "sharded"])
@pytest.mark.parametrize(("form", "lateness"), CASES)
@pytest.mark.parametrize("after", [0.05, pytest.param(3.0, marks=pytest.mark.soak)])
async def test_replica_that_stops_before_its_creates_are_answered_doubles_no_child(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, election: str, form: Form, lateness: Lateness, after: float
) -> None:
    await create_owners(kcr_cluster.client)
    make = {"leading": leading, "sharded": sharded}[election](kcr_clock, kcr_cluster.client, form)
    async with late(kcr_cluster, lateness) as transport:
        async with running(make(Client(transport), "first")):
            await kcr_clock.advance(after)
        async with running(make(kcr_cluster.client, "second")):
            await kcr_clock.advance(120)
            assert set((await children_of(kcr_cluster.client)).values()) == {WANTED}


@pytest.mark.parametrize(("form", "lateness"), CASES)
@pytest.mark.parametrize("after", [0.05, pytest.param(1.0, marks=pytest.mark.soak)])
async def test_shards_that_move_before_their_creates_are_answered_double_no_child(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, form: Form, lateness: Lateness, after: float
) -> None:
    await create_owners(kcr_cluster.client)
    make = sharded(kcr_clock, kcr_cluster.client, form)
    async with late(kcr_cluster, lateness) as transport, running(make(Client(transport), "first")):
        await kcr_clock.advance(after)
        async with running(make(kcr_cluster.client, "second")):
            await kcr_clock.advance(120)
            assert set((await children_of(kcr_cluster.client)).values()) == {WANTED}
