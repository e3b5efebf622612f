"""Creates in member clusters that arrive late or have no answer: one child for each that is wanted (CL-21)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest
import pytest_asyncio

import kcr
from kcr.api.core import ConfigMap, Secret
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client, ClusterConfig, Transport
from kcr.scopes.leaderelection import LeaderElectionConfig, LeaderElector
from kcr.testing import VirtualClock
from tests.kit.fleets import Fleet, config_of, fleet_of
from tests.kit.late_creates import LateCreates

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]

OWNERS = [f"owner-{number}" for number in range(6)]
WANTED = 2
# How late creates arrive, when the connection of their sender is cut, and whether it gets an answer at all.
LATE = [
    pytest.param(2.0, 0.3, True, id="cut-before"),
    pytest.param(4.0, None, True, id="answered-late", marks=pytest.mark.soak),
    pytest.param(4.0, 0.1, True, id="cut-long-before", marks=pytest.mark.soak),
    pytest.param(0.1, 0.1, True, id="cut-meanwhile", marks=pytest.mark.soak),
    pytest.param(0.1, None, False, id="never-answered", marks=pytest.mark.soak),
]


class MemberReconciler:
    """Creates two Secrets for each ConfigMap of a member, by `generateName`."""

    def __init__(self, clusters: kcr.Clusters) -> None:
        self._clusters = clusters

    async def reconcile(self, key: Key) -> kcr.Result:
        member = self._clusters[key.cluster]
        owner = member.store(ConfigMap).get(key)
        if owner is None or key.name not in OWNERS:
            return kcr.Result()
        there = member.store(Secret).list()
        children = [one for one in there if one.metadata.owner_references[0].uid == owner.metadata.uid]
        for _ in range(WANTED - len(children)):
            metadata = ObjectMeta(generate_name=f"{key.name}-", namespace=key.namespace)
            await member.client.create(kcr.set_controller(Secret(metadata=metadata), owner))
        return kcr.Result()


class Replica:
    """A process that leads, with the member `east`."""

    def __init__(self, fleet: Fleet, clock: VirtualClock, line: Transport, name: str) -> None:
        config = LeaderElectionConfig(name="web", identity=name)
        elector = LeaderElector(Client(fleet.home.transport), config, clock=clock, random=Random(name))
        self.manager = kcr.Manager(fleet.home.client, clock=clock, random=Random(name), leader_election=elector)
        self._line = line
        self.clusters = kcr.Clusters(self.manager, {"east": config_of("east")}, connect=self._connect)
        controller = self.manager.add_controller("children", MemberReconciler(self.clusters), workers=len(OWNERS))
        self.clusters.watch(controller, kcr.watch(ConfigMap))
        self.clusters.watch(controller, kcr.owned(Secret, by=ConfigMap))

    @asynccontextmanager
    async def _connect(self, config: ClusterConfig) -> AsyncIterator[Transport]:
        yield self._line


@pytest_asyncio.fixture
async def fleet(kcr_clock: VirtualClock) -> AsyncIterator[Fleet]:
    async with fleet_of(kcr_clock, "east") as fleet:
        for name in OWNERS:
            owner = ConfigMap(metadata=ObjectMeta(name=name, namespace="default"))
            await fleet.members["east"].client.create(owner)
        yield fleet


@asynccontextmanager
async def late(fleet: Fleet, seconds: float, cut_after: float | None, is_answered: bool) -> AsyncIterator[LateCreates]:
    async with asyncio.TaskGroup() as group:
        yield LateCreates(
            fleet.members["east"].transport, group, "secrets",
            seconds=lambda: seconds, cut_after=cut_after, is_answered=is_answered,
        )  # fmt: skip


async def children_of(fleet: Fleet) -> dict[str, int]:
    """How many children each owner has."""
    children = await fleet.members["east"].client.list(Secret, "default")
    owners = [one.metadata.owner_references[0].name for one in children]
    return {name: owners.count(name) for name in OWNERS}


@pytest.mark.parametrize(("seconds", "cut_after", "is_answered"), LATE)
async def test_late_create_in_a_member_makes_one_child(
    fleet: Fleet, kcr_clock: VirtualClock, seconds: float, cut_after: float | None, is_answered: bool
) -> None:
    async with late(fleet, seconds, cut_after, is_answered) as line:
        replica = Replica(fleet, kcr_clock, line, "first")
        async with replica.manager.running():
            await kcr_clock.advance(120)
            assert set((await children_of(fleet)).values()) == {WANTED}


@pytest.mark.parametrize("away", [0.0, pytest.param(1.0, marks=pytest.mark.soak), 10.0])
@pytest.mark.parametrize(("seconds", "cut_after", "is_answered"), LATE)
@pytest.mark.parametrize("after", [0.05, pytest.param(1.0, marks=pytest.mark.soak)])
async def test_member_that_leaves_with_unanswered_creates_and_returns_has_one_child_of_each(
    fleet: Fleet, kcr_clock: VirtualClock, seconds: float, cut_after: float | None, is_answered: bool, after: float,
    away: float,
) -> None:  # fmt: skip
    async with late(fleet, seconds, cut_after, is_answered) as line:
        replica = Replica(fleet, kcr_clock, line, "first")
        async with replica.manager.running():
            await kcr_clock.advance(after)
            replica.clusters.close("east")
            await kcr_clock.advance(away)
            replica.clusters.open("east", config_of("east"))
            await kcr_clock.advance(120)
            assert set((await children_of(fleet)).values()) == {WANTED}


@pytest.mark.parametrize(("seconds", "cut_after", "is_answered"), LATE)
@pytest.mark.parametrize("after", [0.05, pytest.param(3.0, marks=pytest.mark.soak)])
async def test_leader_that_stops_before_creates_in_a_member_are_answered_doubles_no_child(
    fleet: Fleet, kcr_clock: VirtualClock, seconds: float, cut_after: float | None, is_answered: bool, after: float
) -> None:
    async with late(fleet, seconds, cut_after, is_answered) as line:
        async with Replica(fleet, kcr_clock, line, "first").manager.running():
            await kcr_clock.advance(after)
        async with Replica(fleet, kcr_clock, fleet.members["east"].transport, "second").manager.running():
            await kcr_clock.advance(120)
            assert set((await children_of(fleet)).values()) == {WANTED}
