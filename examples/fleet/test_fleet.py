"""The fleet on three embedded clusters in one virtual time."""

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

import kcr
from examples.fleet.fleet import COPIED, COPY, attach
from kcr.api.core import ConfigMap, Event, Namespace
from kcr.client import ClusterConfig, Transport
from kcr.testing import FaultyTransport, VirtualClock, namespace_ends
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = pytest.mark.kcr_virtual

KEY = kcr.Key("default", "colors")


class World:
    """A home cluster with the fleet, and two members; requests to them may fail."""

    def __init__(self, home: EmbeddedCluster, members: Mapping[str, EmbeddedCluster], clock: VirtualClock) -> None:
        self.home = home.client
        self.members = {name: member.client for name, member in members.items()}
        self.faults = {name: FaultyTransport(member.transport) for name, member in members.items()}
        self.manager = kcr.Manager(home.client, clock=clock, random=random.Random(0))

    def setup(self, manager: kcr.Manager) -> None:
        """Attach the fleet to a manager."""
        configs = {name: ClusterConfig(server=f"https://{name}") for name in self.members}
        attach(manager, kcr.Clusters(manager, configs, connect=self._connect))

    @asynccontextmanager
    async def _connect(self, config: ClusterConfig) -> AsyncIterator[Transport]:
        yield self.faults[config.server.removeprefix("https://")]

    async def copies(self) -> dict[str, str]:
        """The color of the sky in each member that has the copy."""
        found = {name: await client.list(ConfigMap, "default") for name, client in self.members.items()}
        return {name: one.data["sky"] for name, objects in found.items() for one in objects if one.key == KEY}


@asynccontextmanager
async def world_of(clock: VirtualClock) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        home, east, west = [
            await stack.enter_async_context(EmbeddedCluster(runtime=None, clock=clock, random=random.Random(seed)))
            for seed in range(3)
        ]
        world = World(home, {"east": east, "west": west}, clock)
        world.setup(world.manager)
        await stack.enter_async_context(world.manager.running())
        yield world


def source(sky: str, namespace: str = KEY.namespace) -> ConfigMap:
    metadata = kcr.ObjectMeta(name=KEY.name, namespace=namespace, labels={COPY: "true"})
    return ConfigMap(metadata=metadata, data={"sky": sky})


async def test_copies_follow_their_source(kcr_clock: VirtualClock) -> None:
    async with world_of(kcr_clock) as world:
        await world.home.create(source("blue"))
        await kcr_clock.advance(1)
        assert await world.copies() == {"east": "blue", "west": "blue"}
        await world.members["west"].merge_patch(ConfigMap, KEY, {"data": {"sky": "red"}})
        await world.home.merge_patch(ConfigMap, KEY, {"data": {"sky": "grey"}})
        await kcr_clock.advance(1)
        assert await world.copies() == {"east": "grey", "west": "grey"}
        await world.home.merge_patch(ConfigMap, KEY, {"metadata": {"labels": {COPY: None}}})
        await kcr_clock.advance(1)
        assert await world.copies() == {}


async def test_member_that_refuses_delays_no_other(kcr_clock: VirtualClock) -> None:
    async with world_of(kcr_clock) as world:
        world.faults["east"].on("create").fail(kcr.ForbiddenError)
        await world.home.create(source("blue"))
        await kcr_clock.advance(10)
        assert await world.copies() == {"west": "blue"}
        world.faults["east"].heal()
        await kcr_clock.advance(60)
        assert await world.copies() == {"east": "blue", "west": "blue"}


async def test_config_map_of_another_user_is_left_alone(kcr_clock: VirtualClock) -> None:
    async with world_of(kcr_clock) as world:
        metadata = kcr.ObjectMeta(name=KEY.name, namespace=KEY.namespace)
        await world.members["east"].create(ConfigMap(metadata=metadata, data={"sky": "red"}))
        await world.home.create(source("blue"))
        await kcr_clock.advance(10)
        assert await world.copies() == {"east": "red", "west": "blue"}
        assert COPIED not in (await world.members["east"].get(ConfigMap, KEY)).metadata.labels
        events = await world.home.list(Event, KEY.namespace)
        assert [event.message for event in events] == ["east has a ConfigMap of this name that is no copy"]


async def test_namespace_of_a_source_ends(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(runtime=None, clock=kcr_clock, random=random.Random(1)) as east:
        await east.client.create(Namespace(metadata=kcr.ObjectMeta(name="ending")))
        await namespace_ends(kcr_cluster, World(kcr_cluster, {"east": east}, kcr_clock).setup, [source("blue")])


async def test_copy_returns_with_the_namespace_of_a_member(kcr_clock: VirtualClock) -> None:
    team = Namespace(metadata=kcr.ObjectMeta(name="team"))
    async with world_of(kcr_clock) as world:
        for client in (world.home, *world.members.values()):
            await client.create(team)
        await world.home.create(source("blue", "team"))
        await kcr_clock.advance(1)
        east = world.members["east"]
        await east.delete(Namespace, team.key)
        await kcr_clock.advance(60)
        assert team.key not in {one.key for one in await east.list(Namespace)}
        assert not world.manager.controllers["fleet"].journal.failing
        await east.create(team)
        await kcr_clock.advance(60)
        assert (await east.get(ConfigMap, kcr.Key("team", KEY.name))).data == {"sky": "blue"}
