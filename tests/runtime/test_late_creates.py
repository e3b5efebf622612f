"""Creates that arrive late or have no answer: one child for each that is wanted, also after a hand-over (CL-21)."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import NamedTuple

import pytest

import kcr
from kcr.api.coordination import Lease
from kcr.api.core import ConfigMap, Secret
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client
from kcr.scopes.leaderelection import LeaderElectionConfig, LeaderElector
from kcr.scopes.sharding import ShardedReplica
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.child_forms import FORMS, WANTED, ChildForm, FixedNamesForm, ManifestForm, add_form
from tests.kit.late_creates import late_creates
from tests.kit.replicas import running, same_loop

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]

OWNERS = [f"owner-{number}" for number in range(6)]


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


# In each form that the guide has; `make test` has one case of each with an `OwnWrites` of its own.
_ALWAYS = [pytest.param(ChildForm, *case.values, id=f"default-{case.id}") for case in LATE]
CASES = _ALWAYS + [
    pytest.param(
        form, *case.values, id=f"{form.__name__}-{case.id}",
        marks=[] if case.id == "cut-before" and form is not ManifestForm else pytest.mark.soak,
    )
    for form in FORMS[1:]
    for case in LATE
]  # fmt: skip
Form = type[ChildForm]
Replicas = Callable[[Client, str], "Replica"]


class Replica:
    """A process with the controller."""

    def __init__(self, manager: kcr.Manager, form: Form = ChildForm) -> None:
        self.manager = manager
        add_form(manager, form, workers=len(OWNERS))

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
async def late(cluster: EmbeddedCluster, lateness: Lateness) -> AsyncIterator[FaultyTransport]:
    """Deliver creates of Secrets late; at the end all that are under way arrive."""
    faults = late_creates(cluster.transport, lateness.seconds, lateness.cut_after, answered=lateness.is_answered)
    yield faults
    await faults.arrived()


async def create_owners(client: Client) -> None:
    for name in OWNERS:
        await client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))


async def children_of(client: Client) -> dict[str, int]:
    """How many children each owner has."""
    children = await client.list(Secret, "default")
    owners = [one.metadata.owner_references[0].name for one in children if one.metadata.owner_references]
    return {name: owners.count(name) for name in OWNERS}


async def check_children(cluster: EmbeddedCluster, clock: VirtualClock, transport: FaultyTransport, form: Form) -> None:
    await clock.advance(120)
    if form is FixedNamesForm:
        # An apply is sent again until it is answered, and only then the next one.
        assert max((await children_of(cluster.client)).values()) <= WANTED
        transport.heal()
        await clock.advance(60)
    assert set((await children_of(cluster.client)).values()) == {WANTED}


@pytest.mark.parametrize(("form", "lateness"), CASES)
async def test_late_create_makes_one_child(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, form: Form, lateness: Lateness
) -> None:
    await create_owners(kcr_cluster.client)
    async with late(kcr_cluster, lateness) as transport:
        manager = kcr.Manager(Client(transport), clock=kcr_clock, random=Random(1))
        async with running(Replica(manager, form)):
            await check_children(kcr_cluster, kcr_clock, transport, form)


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
        if election == "leading" and transport.under_way:
            lease = await kcr_cluster.client.get(Lease, Key("default", "web"))
            assert lease.spec.holder_identity == "first", "released before its creates have arrived"
        async with running(make(kcr_cluster.client, "second")):
            await check_children(kcr_cluster, kcr_clock, transport, form)


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
            await check_children(kcr_cluster, kcr_clock, transport, form)


@pytest.mark.parametrize(("form", "lateness"), CASES)
@pytest.mark.parametrize("after", [0.05, *(pytest.param(one, marks=pytest.mark.soak) for one in (1.0, 2.2, 2.8))])
@pytest.mark.parametrize("away", [0.5, pytest.param(10.0, marks=pytest.mark.soak)])
async def test_namespace_that_leaves_with_unanswered_creates_and_returns_has_one_child_of_each(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, form: Form, lateness: Lateness, after: float, away: float
) -> None:
    await create_owners(kcr_cluster.client)
    async with late(kcr_cluster, lateness) as transport:
        namespaces = kcr.Namespaces("default")
        manager = kcr.Manager(Client(transport), clock=kcr_clock, random=Random(1), namespace=namespaces)
        async with running(Replica(manager, form)):
            await kcr_clock.advance(after)
            namespaces.change(())
            await kcr_clock.advance(away)
            namespaces.change({"default"})
            await check_children(kcr_cluster, kcr_clock, transport, form)
