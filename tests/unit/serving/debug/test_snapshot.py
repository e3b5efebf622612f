"""The parts of the state that are no controller."""

import asyncio
import random

import pytest
from prometheus_client import CollectorRegistry, Histogram

from kcr.api.core import Pod
from kcr.informer import Selection
from kcr.scopes.gate import ScopePhase
from kcr.scopes.leaderelection import LeaderElectionConfig, LeaderElector
from kcr.scopes.sharding.shards import Shards
from kcr.serving.debug.access import DebugOptions
from kcr.serving.debug.snapshot import StateReader, informer_state, resident_bytes
from kcr.serving.debug.sources import StateSources, WatchedKind
from kcr.serving.debug.state import LeadershipState
from kcr.serving.health import Health, LoopMonitor
from kcr.serving.ports import ProgramLoop
from kcr.testing import FakeInformer, VirtualClock, build
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = pytest.mark.kcr_virtual


async def test_process_says_what_it_is(kcr_clock: VirtualClock) -> None:
    sources = StateSources(Health(), kcr_clock)
    sources.options = DebugOptions(command="kcr run", server="https://example")
    reader = StateReader(sources, ProgramLoop())
    await kcr_clock.advance(60)
    state = reader.state(asyncio.get_running_loop().time(), 10, ("informer-pods: pods is forbidden",))
    process = state.process
    assert (process.command, process.server, process.uptime_seconds) == ("kcr run", "https://example", 60.0)
    assert process.now == kcr_clock.now()
    assert process.not_ready == ("informer-pods: pods is forbidden",)
    assert (state.leadership, state.informers, state.controllers) == (None, (), ())


async def test_loop_that_is_measured_tells_its_lag(kcr_clock: VirtualClock) -> None:
    sources = StateSources(Health(), kcr_clock)
    monitor = sources.monitor = LoopMonitor(Histogram("lag", "", registry=CollectorRegistry()))
    reader = StateReader(sources, ProgramLoop())
    async with asyncio.TaskGroup() as group:
        task = group.create_task(monitor.run())
        await kcr_clock.advance(1)
        now = asyncio.get_running_loop().time()
        in_time, late = reader.state(now, 1, ()).loop, reader.state(now + 3, 1, ()).loop
        task.cancel()
    assert in_time.lag_seconds == pytest.approx(0, abs=0.01)
    assert not in_time.blocked_at
    assert late.lag_seconds == late.max_lag_seconds == pytest.approx(2.9, abs=0.2)
    assert late.blocked_at


async def test_informer_tells_what_it_holds() -> None:
    informer = FakeInformer(Pod)
    informer.add(build.pod("a"))
    selections = (Selection(Pod, "b"), Selection(Pod, "a"))
    state = informer_state("pods", WatchedKind(selections, informer), 10.0)
    assert (state.kind, state.namespaces, state.objects, state.is_synced) == ("pods", ("a", "b"), 1, True)
    assert state.last_event_seconds_ago is None or state.last_event_seconds_ago >= 0


def elector(cluster: EmbeddedCluster, clock: VirtualClock, identity: str) -> LeaderElector:
    config = LeaderElectionConfig(name="operator", identity=identity)
    return LeaderElector(cluster.client, config, clock=clock, random=random.Random(identity))


async def test_leader_and_standby_name_the_leader(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(runtime=None) as cluster, asyncio.TaskGroup() as group:
        leader, standby = elector(cluster, kcr_clock, "a"), elector(cluster, kcr_clock, "b")
        tasks = [group.create_task(leader.run())]
        await kcr_clock.advance(1)
        tasks.append(group.create_task(standby.run()))
        await kcr_clock.advance(0.5)
        seen = []
        for one in (leader, standby):
            sources = StateSources(Health(), kcr_clock, one)
            seen.append(StateReader(sources, ProgramLoop()).state(0.0, 1, ()).leadership)
        for task in tasks:
            task.cancel()
    assert seen == [
        LeadershipState(
            lease="default/operator", identity=identity, holder="a", is_leading=identity == "a",
            renewed_seconds_ago=1.499999,
        )
        for identity in ("a", "b")
    ]  # fmt: skip


def test_process_has_memory() -> None:
    assert resident_bytes() > 1_000_000


async def test_held_shards_are_shown_with_their_phases(kcr_clock: VirtualClock) -> None:
    shards = Shards(LeaderElectionConfig(name="operator", identity="a"), 4, kcr_clock)
    fence = shards.make_fence(asyncio.get_running_loop().time)
    for shard in (3, 0, 1):
        shards.take(shard, fence, fence.read(), 1, 0.0)
    shards.set_phase((0, 1), ScopePhase.ACTIVE)
    sources = StateSources(Health(), kcr_clock, shards)
    sharding = StateReader(sources, ProgramLoop()).state(0.0, 1, ()).sharding
    assert sharding is not None
    assert (sharding.lease, sharding.identity, sharding.shards) == ("default/operator", "a", 4)
    assert sharding.phases == {0: "active", 1: "active", 3: "opening"}
    assert (sharding.held, sharding.moves["taken"]) == ("0-1, 3", 3)
