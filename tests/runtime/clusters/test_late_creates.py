"""Creates in member clusters that arrive late or have no answer: one child for each that is wanted (CL-21)."""

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
from kcr.testing import FaultyTransport, VirtualClock
from tests.kit.child_forms import (
    FORMS,
    WANTED,
    ByHandForm,
    ChildForm,
    ControlForm,
    FixedNamesForm,
    ManifestForm,
    add_member_form,
)
from tests.kit.fleets import Fleet, config_of, fleet_of
from tests.kit.late_creates import late_creates

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]

OWNERS = [f"owner-{number}" for number in range(6)]
# How late creates arrive, when the connection of their sender is cut, and whether it gets an answer at all.
LATE = [
    pytest.param(2.0, 0.3, True, id="cut-before"),
    pytest.param(4.0, None, True, id="answered-late", marks=pytest.mark.soak),
    pytest.param(4.0, 0.1, True, id="cut-long-before", marks=pytest.mark.soak),
    pytest.param(0.1, 0.1, True, id="cut-meanwhile", marks=pytest.mark.soak),
    pytest.param(0.1, None, False, id="never-answered", marks=pytest.mark.soak),
]
# `make test` has one case of each form that differs here.
CASES = [
    pytest.param(
        form, *case.values, id=f"{form.__name__}-{case.id}",
        marks=[*case.marks, pytest.mark.soak] if form in (ManifestForm, ByHandForm) else case.marks,
    )
    for form in FORMS
    for case in LATE
    if form is ChildForm or not case.marks
]  # fmt: skip
# When the member leaves: while its first creates are under way, or the second ones; and for how long.
ABSENCES = [
    pytest.param(0.05, 0.0), pytest.param(0.05, 10.0), pytest.param(2.2, 0.0),
    *(pytest.param(*one, marks=pytest.mark.soak) for one in ((0.05, 1.0), (1.0, 0.0), (1.0, 10.0), (2.2, 1.0))),
    pytest.param(2.2, 10.0, marks=pytest.mark.soak),
]  # fmt: skip


class Replica:
    """A process that leads, with the members."""

    def __init__(
        self, fleet: Fleet, clock: VirtualClock, east: Transport, name: str, form: type[ChildForm] = ChildForm
    ) -> None:
        config = LeaderElectionConfig(name="web", identity=name)
        elector = LeaderElector(Client(fleet.home.transport), config, clock=clock, random=Random(name))
        self.manager = kcr.Manager(fleet.home.client, clock=clock, random=Random(name), leader_election=elector)
        self._lines = {"https://east": east, "https://west": fleet.members["west"].transport}
        members = {name: config_of(name) for name in fleet.members}
        self.clusters = kcr.Clusters(self.manager, members, connect=self._connect)
        add_member_form(self.manager, self.clusters, form, workers=2 * len(OWNERS))

    @asynccontextmanager
    async def _connect(self, config: ClusterConfig) -> AsyncIterator[Transport]:
        yield self._lines[config.server]


@pytest_asyncio.fixture
async def fleet(kcr_clock: VirtualClock) -> AsyncIterator[Fleet]:
    async with fleet_of(kcr_clock, "east", "west") as fleet:
        for name in OWNERS:
            owner = ConfigMap(metadata=ObjectMeta(name=name, namespace="default"))
            for member in fleet.members.values():
                await member.client.create(owner)
        yield fleet


@asynccontextmanager
async def late(
    fleet: Fleet, seconds: float, cut_after: float | None, is_answered: bool
) -> AsyncIterator[FaultyTransport]:
    faults = late_creates(fleet.members["east"].transport, seconds, cut_after, answered=is_answered)
    yield faults
    await faults.arrived()


async def children_of(fleet: Fleet) -> dict[str, int]:
    """How many children each owner has."""
    counts: dict[str, int] = {}
    for cluster, member in fleet.members.items():
        owners = [one.metadata.owner_references[0].name for one in await member.client.list(Secret, "default")]
        counts |= {f"{cluster}/{name}": owners.count(name) for name in OWNERS}
    return counts


@pytest.mark.parametrize(("form", "seconds", "cut_after", "is_answered"), CASES)
async def test_late_create_in_a_member_makes_one_child(
    fleet: Fleet,
    kcr_clock: VirtualClock,
    form: type[ChildForm],
    seconds: float,
    cut_after: float | None,
    is_answered: bool,
) -> None:
    async with late(fleet, seconds, cut_after, is_answered) as line:
        replica = Replica(fleet, kcr_clock, line, "first", form)
        async with replica.manager.running():
            await check_children(fleet, kcr_clock, line, form)


async def check_children(fleet: Fleet, clock: VirtualClock, line: FaultyTransport, form: type[ChildForm]) -> None:
    await clock.advance(120)
    if form is FixedNamesForm:
        # An apply is sent again until it is answered, and only then the next one.
        assert max((await children_of(fleet)).values()) <= WANTED
        line.heal()
        await clock.advance(60)
    assert set((await children_of(fleet)).values()) == {WANTED}


@pytest.mark.parametrize("form", [ByHandForm, ControlForm])
async def test_late_watch_of_a_member_makes_no_surplus_child(
    fleet: Fleet, kcr_clock: VirtualClock, form: type[ChildForm]
) -> None:
    east = FaultyTransport(fleet.members["east"].transport)
    east.on("watch", Secret).lag(0.3)
    replica = Replica(fleet, kcr_clock, east, "first", form)
    async with replica.manager.running():
        for number in range(20):
            change = {"metadata": {"labels": {"poked": str(number)}}}
            await fleet.members["east"].client.merge_patch(ConfigMap, Key("default", OWNERS[0]), change)
            await kcr_clock.advance(0.05)
        assert set((await children_of(fleet)).values()) == {WANTED}


@pytest.mark.parametrize(("form", "seconds", "cut_after", "is_answered"), CASES)
@pytest.mark.parametrize(("after", "away"), ABSENCES)
async def test_member_that_leaves_with_unanswered_creates_and_returns_has_one_child_of_each(
    fleet: Fleet, kcr_clock: VirtualClock, form: type[ChildForm], seconds: float, cut_after: float | None,
    is_answered: bool, after: float, away: float,
) -> None:  # fmt: skip
    async with late(fleet, seconds, cut_after, is_answered) as line:
        replica = Replica(fleet, kcr_clock, line, "first", form)
        async with replica.manager.running():
            await kcr_clock.advance(after)
            replica.clusters.close("east")
            await kcr_clock.advance(away)
            replica.clusters.open("east", config_of("east"))
            await check_children(fleet, kcr_clock, line, form)


@pytest.mark.parametrize(("form", "seconds", "cut_after", "is_answered"), CASES)
@pytest.mark.parametrize("after", [0.05, pytest.param(3.0, marks=pytest.mark.soak)])
async def test_leader_that_stops_before_creates_in_a_member_are_answered_doubles_no_child(
    fleet: Fleet,
    kcr_clock: VirtualClock,
    form: type[ChildForm],
    seconds: float,
    cut_after: float | None,
    is_answered: bool,
    after: float,
) -> None:
    async with late(fleet, seconds, cut_after, is_answered) as line:
        async with Replica(fleet, kcr_clock, line, "first", form).manager.running():
            await kcr_clock.advance(after)
        async with Replica(fleet, kcr_clock, fleet.members["east"].transport, "second", form).manager.running():
            await check_children(fleet, kcr_clock, line, form)
