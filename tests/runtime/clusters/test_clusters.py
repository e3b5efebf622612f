"""Member clusters: a program on several embedded clusters in one virtual time."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio
from structlog.contextvars import get_contextvars
from structlog.testing import capture_logs

import kcr
from examples.fleet.fleet import COPY, attach
from kcr.api.core import ConfigMap
from kcr.api.full.apiextensions_v1 import CustomResourceDefinition
from kcr.client import ClusterConfig, Transport
from kcr.errors import LeadershipLostError
from kcr.scopes.leaderelection import LeaderElectionConfig, LeaderElector
from kcr.testing import VirtualClock
from tests.kit.fleets import COLORS, CutLine, Fleet, colors, config_of, fleet_of
from tests.kit.replicas import sharded_replica
from tests.kit.transports import late_watches

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]


@pytest_asyncio.fixture
async def fleet(kcr_clock: VirtualClock) -> AsyncIterator[Fleet]:
    async with fleet_of(kcr_clock, "east", "west") as fleet:
        yield fleet


class Seen:
    """A reconciler that notes its keys."""

    def __init__(self) -> None:
        self.keys: list[kcr.Key] = []

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        self.keys.append(key)
        return kcr.Result()


def gauge(manager: kcr.Manager, cluster: str) -> float | None:
    return manager.metrics.registry.get_sample_value("kcr_cluster_up", {"cluster": cluster})


async def set_sky(fleet: Fleet, sky: str) -> None:
    await fleet.home.client.merge_patch(ConfigMap, COLORS, {"data": {"sky": sky}})


async def test_objects_of_the_home_cluster_are_copied_to_all_members(fleet: Fleet, kcr_clock: VirtualClock) -> None:
    manager = fleet.manager()
    attach(manager, fleet.clusters(manager, "east", "west"))
    async with manager.running():
        await fleet.home.client.create(colors("blue", **{COPY: "true"}))
        await kcr_clock.advance(1)
        assert await fleet.copies() == {"east": "blue", "west": "blue"}
        await set_sky(fleet, "grey")
        await fleet.members["west"].client.delete(ConfigMap, COLORS)
        await kcr_clock.advance(1)
        assert await fleet.copies() == {"east": "grey", "west": "grey"}
        await fleet.home.client.delete(ConfigMap, COLORS)
        await kcr_clock.advance(1)
        assert await fleet.copies() == {}


async def test_change_in_a_member_enqueues_a_key_of_its_cluster(fleet: Fleet, kcr_clock: VirtualClock) -> None:
    manager, seen = fleet.manager(), Seen()
    clusters = fleet.clusters(manager, "east", "west")
    clusters.watch(manager.add_controller("seen", seen), kcr.watch(ConfigMap))
    async with manager.running():
        await kcr_clock.advance(1)
        seen.keys.clear()
        await fleet.members["west"].client.create(colors("blue"))
        await kcr_clock.advance(1)
        assert seen.keys == [COLORS.in_cluster("west")]
        assert clusters["west"].store(ConfigMap).get(seen.keys[0]) is not None
        assert clusters["east"].store(ConfigMap).get(seen.keys[0]) is None
        assert manager.store(ConfigMap).synced is False, "nothing watches the home cluster"


async def test_outage_of_a_member_delays_its_keys_alone(fleet: Fleet, kcr_clock: VirtualClock) -> None:
    manager = fleet.manager()
    clusters = fleet.clusters(manager, "east", "west")
    attach(manager, clusters)
    await fleet.home.client.create(colors("blue", **{COPY: "true"}))
    async with manager.running():
        await kcr_clock.advance(1)
        fleet.lines["east"].cut()
        await kcr_clock.advance(1)
        await set_sky(fleet, "grey")
        await kcr_clock.advance(600)
        assert await fleet.copies() == {"east": "blue", "west": "grey"}
        assert manager.health.not_ready() == ()
        assert "the line is cut" in clusters["east"].trouble
        assert (gauge(manager, "east"), gauge(manager, "west")) == (0, 1)
        verbose = manager.health.answer("/readyz", {"verbose": [""]})
        assert verbose is not None
        assert verbose.status == 200
        assert "[+]cluster-east ok: " in verbose.text
        # The keys wait outside of the workers and of the backoff: no request was tried for them.
        assert manager.controllers["fleet"].queue.retries(COLORS.in_cluster("east")) == 0
        fleet.lines["east"].mend()
        await kcr_clock.advance(60)
        assert await fleet.copies() == {"east": "grey", "west": "grey"}
        assert gauge(manager, "east") == 1


async def test_silent_member_holds_its_workers_for_one_timeout(fleet: Fleet, kcr_clock: VirtualClock) -> None:
    manager = fleet.manager()
    attach(manager, fleet.clusters(manager, "east", "west"))
    keys = [kcr.Key("default", f"colors-{number}") for number in range(40)]
    for key in keys:
        metadata = kcr.ObjectMeta(name=key.name, namespace=key.namespace, labels={COPY: "true"})
        await fleet.home.client.create(ConfigMap(metadata=metadata, data={"sky": "blue"}))

    async def paint(sky: str) -> None:
        for key in keys:
            await fleet.home.client.merge_patch(ConfigMap, key, {"data": {"sky": sky}})

    async def painted(sky: str) -> list[int]:
        members = [await one.client.list(ConfigMap, "default") for one in fleet.members.values()]
        return [sum(one.data["sky"] == sky for one in found if one.key in keys) for found in members]

    async with manager.running():
        await kcr_clock.advance(5)
        assert await painted("blue") == [40, 40]
        fleet.lines["east"].freeze()
        asked = fleet.lines["east"].requests
        await paint("grey")
        await kcr_clock.advance(31)
        assert await painted("grey") == [0, 40]
        # The watches of east are open still, and ten workers were not held again.
        assert fleet.lines["east"].requests - asked <= 12
        await paint("green")
        await kcr_clock.advance(2)
        assert await painted("green") == [0, 40]
        fleet.lines["east"].thaw()
        await kcr_clock.advance(120)
        assert await painted("green") == [40, 40]


async def test_member_that_never_answered_delays_no_other(fleet: Fleet, kcr_clock: VirtualClock) -> None:
    manager = fleet.manager()
    fleet.lines["east"].cut()
    attach(manager, fleet.clusters(manager, "east", "west"))
    await fleet.home.client.create(colors("blue", **{COPY: "true"}))
    async with manager.running():
        await kcr_clock.advance(300)
        assert await fleet.copies() == {"west": "blue"}
        assert manager.health.not_ready() == ()
        assert fleet.lines["east"].requests < 40, "it is tried with backoff"
        fleet.lines["east"].mend()
        await kcr_clock.advance(60)
        assert await fleet.copies() == {"east": "blue", "west": "blue"}


@pytest.mark.parametrize("mended", ["east", "west"])
async def test_keys_of_an_outage_are_retried_by_cluster(fleet: Fleet, kcr_clock: VirtualClock, mended: str) -> None:
    """Two members do not answer; all keys of the first one that does again are retried at once."""
    manager, answered = fleet.manager(), set[kcr.Key]()
    clusters = fleet.clusters(manager, "east", "west")

    class Writes:
        async def reconcile(self, key: kcr.Key) -> kcr.Result:
            await clusters[key.cluster].client.get(ConfigMap, key)
            answered.add(key)
            return kcr.Result()

    # Without a watch in the members, nothing defers the keys.
    clusters.watch_home(manager.add_controller("writes", Writes(), workers=10), kcr.watch(ConfigMap))
    async with manager.running():
        await kcr_clock.advance(1)
        for line in fleet.lines.values():
            line.cut()
        for name in ("a", "b", "c"):
            await fleet.home.client.create(ConfigMap(metadata=kcr.ObjectMeta(name=name, namespace="default")))
        for member in fleet.members.values():
            for name in ("a", "b", "c"):
                await member.client.create(ConfigMap(metadata=kcr.ObjectMeta(name=name, namespace="default")))
        await kcr_clock.advance(500)
        fleet.lines[mended].mend()
        answered.clear()
        await kcr_clock.advance(10)
        assert {key.name for key in answered if key.cluster == mended} >= {"a", "b", "c"}


async def test_closed_member_loses_its_objects_and_its_keys(fleet: Fleet, kcr_clock: VirtualClock) -> None:
    manager, seen = fleet.manager(), Seen()
    clusters = fleet.clusters(manager, "east", "west")
    controller = manager.add_controller("seen", seen)
    clusters.watch(controller, kcr.watch(ConfigMap))
    await fleet.members["east"].client.create(colors("blue"))
    async with manager.running():
        await kcr_clock.advance(1)
        east, store = clusters["east"], clusters["east"].store(ConfigMap)
        clusters.close("east")
        assert "east" not in clusters
        assert list(clusters) == ["west"]
        with pytest.raises(kcr.NotSyncedError, match="removed"):
            store.list()
        with pytest.raises(kcr.NotSyncedError, match="cluster 'east' is not open"):
            clusters["east"]
        with pytest.raises(kcr.NotSyncedError, match="cluster east: it was closed"):
            await east.client.create(colors("grey"))
        seen.keys.clear()
        controller.queue.add(COLORS.in_cluster("east"))
        asked = fleet.lines["east"].requests
        await kcr_clock.advance(600)
        assert seen.keys == []
        assert fleet.lines["east"].requests == asked
        assert gauge(manager, "east") is None
        # A new one of its name begins with all of its objects.
        clusters.open("east", config_of("east"))
        await kcr_clock.advance(1)
        assert COLORS.in_cluster("east") in seen.keys


async def test_write_to_a_member_is_read_by_the_next_reconcile(fleet: Fleet, kcr_clock: VirtualClock) -> None:
    """A key is enqueued again at once: its next reconcile waits until the member's store shows the create."""
    manager, creates = fleet.manager(), list[str]()
    clusters = fleet.clusters(manager, "east", "west")

    class Creates:
        async def reconcile(self, key: kcr.Key) -> kcr.Result:
            member = clusters[key.cluster]
            if member.store(ConfigMap).get(key) is None:
                creates.append(key.cluster)
                await member.client.create(colors("blue"))
                controller.queue.add(key)
            return kcr.Result()

    controller = manager.add_controller("creates", Creates())
    clusters.watch(controller, kcr.watch(ConfigMap))
    async with manager.running():
        await kcr_clock.advance(1)
        controller.queue.add(COLORS.in_cluster("west"))
        await kcr_clock.advance(5)
    assert creates == ["west"]


@pytest.mark.parametrize("write", [1, 2, 3])
async def test_crash_after_a_write_to_a_member_leaves_no_copy_wrong(
    fleet: Fleet, kcr_clock: VirtualClock, write: int
) -> None:
    sky = ["blue", "grey", ""]

    async def live(*changes: str) -> None:
        manager = fleet.manager()
        attach(manager, fleet.clusters(manager, "east", "west"))
        async with manager.running():
            for change in changes:
                if not change:
                    await fleet.home.client.delete(ConfigMap, COLORS)
                elif change == sky[0]:
                    await fleet.home.client.create(colors(change, **{COPY: "true"}))
                else:
                    await set_sky(fleet, change)
                await kcr_clock.advance(5)
            await kcr_clock.advance(5)

    # The create, the patch, and the deletion: the process ends after one of them, and another one continues.
    fleet.crash.crash_after(write)
    await live(*sky[:write])
    assert fleet.crash.crashed.is_set()
    fleet.restart()
    await live()
    expected = {} if write == 3 else {"east": sky[write - 1], "west": sky[write - 1]}
    assert await fleet.copies() == expected
    await live(*sky[write:])
    assert await fleet.copies() == {}


async def test_source_that_is_deleted_while_no_program_runs_loses_its_copies(
    fleet: Fleet, kcr_clock: VirtualClock
) -> None:
    for deleted in (False, True):
        manager = fleet.manager()
        attach(manager, fleet.clusters(manager, "east", "west"))
        if deleted:
            await fleet.home.client.delete(ConfigMap, COLORS)
        else:
            await fleet.home.client.create(colors("blue", **{COPY: "true"}))
        async with manager.running():
            await kcr_clock.advance(5)
        assert len(await fleet.copies()) == (0 if deleted else 2)


async def test_lost_reply_of_a_member_makes_no_second_write(fleet: Fleet, kcr_clock: VirtualClock) -> None:
    manager = fleet.manager()
    attach(manager, fleet.clusters(manager, "east", "west"))
    fleet.crash.lose_reply(1)
    async with manager.running():
        await fleet.home.client.create(colors("blue", **{COPY: "true"}))
        await kcr_clock.advance(30)
        assert await fleet.copies() == {"east": "blue", "west": "blue"}
    assert fleet.crash.writes == 1


async def test_lost_reply_is_looked_up_in_the_member_while_its_watch_is_late(
    fleet: Fleet, kcr_clock: VirtualClock
) -> None:
    manager = fleet.manager()
    attach(manager, fleet.clusters(manager, "east", "west"))
    late = late_watches(fleet.crash, random.Random(2), {"configmaps": 20.0})
    fleet.lines["east"] = CutLine(late)
    fleet.crash.lose_reply(1)
    async with manager.running():
        await kcr_clock.advance(60)
        await fleet.home.client.create(colors("blue", **{COPY: "true"}))
        await kcr_clock.advance(60)
        assert await fleet.copies() == {"east": "blue", "west": "blue"}
    assert fleet.crash.writes == 1


async def test_standby_has_the_caches_and_writes_to_no_member(fleet: Fleet, kcr_clock: VirtualClock) -> None:
    def program(identity: str) -> tuple[kcr.Manager, kcr.Clusters]:
        config = LeaderElectionConfig(name="fleet", namespace="default", identity=identity)
        elector = LeaderElector(fleet.home.client, config, clock=kcr_clock, random=random.Random(0))
        manager = kcr.Manager(fleet.home.client, clock=kcr_clock, random=random.Random(0), leader_election=elector)
        clusters = fleet.clusters(manager, "east", "west")
        attach(manager, clusters)
        return manager, clusters

    leader, _ = program("one")
    standby, clusters = program("two")
    await fleet.home.client.create(colors("blue", **{COPY: "true"}))
    async with standby.running():
        async with leader.running():
            await kcr_clock.advance(30)
            assert await fleet.copies() == {"east": "blue", "west": "blue"}
        await kcr_clock.advance(30)
        await set_sky(fleet, "grey")
        await kcr_clock.advance(5)
        for member in clusters.members.values():
            assert [one.data["sky"] for one in member.store(ConfigMap).list("default") if one.key == COLORS] == ["grey"]


async def test_dry_run_writes_to_no_member(fleet: Fleet, kcr_clock: VirtualClock) -> None:
    client = fleet.home.client.with_options(dry_run=True)
    manager = kcr.Manager(client, clock=kcr_clock, random=random.Random(0))
    attach(manager, fleet.clusters(manager, "east", "west"))
    await fleet.home.client.create(colors("blue", **{COPY: "true"}))
    async with manager.running():
        await kcr_clock.advance(30)
    assert await fleet.copies() == {}
    assert fleet.crash.writes > 0


async def test_configuration_that_cannot_be_used_concerns_its_member_alone(
    fleet: Fleet, kcr_clock: VirtualClock
) -> None:
    @asynccontextmanager
    async def connect(config: ClusterConfig) -> AsyncIterator[Transport]:
        if config.server == "https://east":
            raise kcr.ConfigError("no usable certificate")
        async with fleet.connect(config) as transport:
            yield transport

    manager = fleet.manager()
    configs = {name: config_of(name) for name in fleet.members}
    clusters = kcr.Clusters(manager, configs, connect=connect)
    attach(manager, clusters)
    await fleet.home.client.create(colors("blue", **{COPY: "true"}))
    async with manager.running():
        await kcr_clock.advance(5)
        assert await fleet.copies() == {"west": "blue"}
        assert (gauge(manager, "east"), gauge(manager, "west")) == (0, 1)
        assert clusters["east"].trouble == "no usable certificate"
        with pytest.raises(kcr.NotSyncedError, match="cluster east: no usable certificate"):
            clusters["east"].client  # noqa: B018  # it raises


async def test_wait_for_an_object_of_a_member_fails_with_the_remedy(fleet: Fleet, kcr_clock: VirtualClock) -> None:
    manager = fleet.manager()
    clusters = fleet.clusters(manager, "east")

    class Waits:
        async def reconcile(self, key: kcr.Key) -> kcr.Result:
            raise kcr.WaitFor(ConfigMap, key)

    controller = manager.add_controller("waits", Waits(), watches=[kcr.watch(ConfigMap)])
    clusters.watch(controller, kcr.watch(ConfigMap))
    await fleet.members["east"].client.create(colors("blue"))
    with capture_logs() as logs:
        async with manager.running():
            await kcr_clock.advance(1)
    errors = {line["error"] for line in logs if line["event"] == "reconcile failed"}
    assert any(f"cannot wait for {COLORS.in_cluster('east')}: " in error for error in errors)


async def test_log_lines_of_a_key_name_its_cluster(fleet: Fleet, kcr_clock: VirtualClock) -> None:
    manager, lines = fleet.manager(), list[tuple[str, object]]()
    clusters = fleet.clusters(manager, "east")

    class Notes:
        async def reconcile(self, key: kcr.Key) -> kcr.Result:
            lines.append((key.name, get_contextvars().get("cluster")))
            return kcr.Result()

    controller = manager.add_controller("notes", Notes(), watches=[kcr.watch(ConfigMap)])
    clusters.watch(controller, kcr.watch(ConfigMap))
    async with manager.running():
        await fleet.members["east"].client.create(colors("blue"))
        await kcr_clock.advance(1)
        await fleet.home.client.create(ConfigMap(metadata=kcr.ObjectMeta(name="home", namespace="default")))
        await kcr_clock.advance(1)
    assert ("colors", "east") in lines
    assert ("home", None) in lines


async def test_sharded_program_has_no_members(fleet: Fleet, kcr_clock: VirtualClock) -> None:
    replica = sharded_replica(fleet.home, kcr_clock, "one")
    manager = kcr.Manager(fleet.home.client, clock=kcr_clock, leader_election=replica)
    with pytest.raises(kcr.ConfigError, match="member clusters cannot be sharded: run without --shards"):
        kcr.Clusters(manager)


async def test_members_need_fixed_namespaces(fleet: Fleet, kcr_clock: VirtualClock) -> None:
    manager = kcr.Manager(fleet.home.client, clock=kcr_clock, namespace=kcr.Namespaces("a"))
    with pytest.raises(kcr.ConfigError, match="name fixed ones for member clusters"):
        kcr.Clusters(manager)


async def test_fixed_namespaces_are_those_of_the_members(fleet: Fleet, kcr_clock: VirtualClock) -> None:
    manager, seen = kcr.Manager(fleet.home.client, clock=kcr_clock, namespace="kube-public"), Seen()
    clusters = fleet.clusters(manager, "east")
    clusters.watch(manager.add_controller("seen", seen), kcr.watch(ConfigMap))
    await fleet.members["east"].client.create(colors("blue"))
    await fleet.members["east"].client.create(
        ConfigMap(metadata=kcr.ObjectMeta(name="public", namespace="kube-public"))
    )
    async with manager.running():
        await kcr_clock.advance(1)
    assert seen.keys == [kcr.Key("kube-public", "public").in_cluster("east")]


@pytest.mark.parametrize("name", ["", "a/b"])
async def test_member_has_a_name_without_slashes(fleet: Fleet, name: str) -> None:
    with pytest.raises(ValueError, match="without slashes"):
        fleet.clusters(fleet.manager()).open(name, config_of("east"))


async def test_members_are_watched_before_the_manager_runs(fleet: Fleet) -> None:
    manager = fleet.manager()
    clusters, controller = fleet.clusters(manager, "east"), manager.add_controller("seen", Seen())
    async with manager.running():
        with pytest.raises(RuntimeError, match="before the manager runs"):
            clusters.watch(controller, kcr.watch(ConfigMap))


class Gear(kcr.FullResource, api_version="example.dev/v1", plural="gears"):
    """A kind that one of the members does not have."""


async def test_kind_that_a_member_lacks_delays_its_keys_alone(fleet: Fleet, kcr_clock: VirtualClock) -> None:
    manager, seen, others = fleet.manager(), Seen(), Seen()
    clusters = fleet.clusters(manager, "east", "west")
    clusters.watch(manager.add_controller("gears", seen), kcr.watch(Gear))
    clusters.watch(manager.add_controller("others", others), kcr.watch(ConfigMap))
    await fleet.members["west"].client.create_manifest(CustomResourceDefinition, kcr.crd_manifest(Gear))
    for member in fleet.members.values():
        await member.client.create(colors("blue"))
    await kcr_clock.advance(1)
    await fleet.members["west"].client.create(Gear(metadata=kcr.ObjectMeta(name="w", namespace="default")))
    async with manager.running():
        await kcr_clock.advance(10)
        assert seen.keys == [kcr.Key("default", "w").in_cluster("west")]
        assert {key.cluster for key in others.keys if key.local == COLORS} == {"east", "west"}
        assert manager.health.not_ready() == ()
        # It is installed later.
        await fleet.members["east"].client.create_manifest(CustomResourceDefinition, kcr.crd_manifest(Gear))
        await kcr_clock.advance(1)
        await fleet.members["east"].client.create(Gear(metadata=kcr.ObjectMeta(name="e", namespace="default")))
        await kcr_clock.advance(30)
        assert kcr.Key("default", "e").in_cluster("east") in seen.keys


async def test_replica_that_does_not_lead_may_not_write_to_a_member(fleet: Fleet, kcr_clock: VirtualClock) -> None:
    config = LeaderElectionConfig(name="fleet", namespace="default", identity="one")
    elector = LeaderElector(fleet.home.client, config, clock=kcr_clock, random=random.Random(0))
    manager = kcr.Manager(fleet.home.client, clock=kcr_clock, random=random.Random(0), leader_election=elector)
    clusters = fleet.clusters(manager, "east")
    async with manager.running():
        await kcr_clock.advance(5)
        client = clusters["east"].client
        await client.create(colors("blue"))
    with pytest.raises(LeadershipLostError):
        await client.delete(ConfigMap, COLORS)
