"""A manager with leader election: standby, take-over, release, loss."""

import asyncio
import random
from typing import Any

import pytest
from structlog.testing import capture_logs

import kcr
from kcr.api.coordination import Lease
from kcr.api.core import Event, Namespace
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client, Transport
from kcr.clock import Clock
from kcr.errors import LeadershipLostError
from kcr.scopes.leaderelection import LeaderElectionConfig, LeaderElector
from kcr.testing import CrashingTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.clocks import ShiftedClock
from tests.kit.replicas import running

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]

LEASE = Key("default", "web")


class Labeller:
    """Labels every namespace with the replica's name; takes its time."""

    def __init__(self, manager: kcr.Manager, name: str, seconds: float) -> None:
        self.began: list[str] = []
        self._client = manager.client
        self._name, self._seconds = name, seconds

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        self.began.append(key.name)
        await asyncio.sleep(self._seconds)
        await self._client.merge_patch(Namespace, key, {"metadata": {"labels": {"by": self._name}}})
        return kcr.Result()


class Replica:
    """A process with a manager, a controller and an elector."""

    def __init__(self, clock: Clock, transport: Transport, name: str, seconds: float = 0.0, lease: str = "web") -> None:
        config = LeaderElectionConfig(name=lease, identity=name)
        self.elector = LeaderElector(Client(transport), config, clock=clock, random=random.Random(name))
        self.manager = kcr.Manager(
            Client(transport), clock=clock, random=random.Random(name), leader_election=self.elector
        )
        self.labeller = Labeller(self.manager, name, seconds)
        self.manager.add_controller("labeller", self.labeller, watches=[kcr.watch(Namespace)])
        self.failure: Exception | None = None

    async def run(self) -> None:
        try:
            await self.manager.run()
        except Exception as error:
            self.failure = error

    def ready(self) -> str:
        result = self.manager.health.answer("/readyz", {"verbose": ()})
        assert result is not None
        assert result.status == 200, result.text
        return result.text


async def labels(cluster: EmbeddedCluster, name: str = "default") -> Any:
    return (await cluster.client.get(Namespace, Key("", name))).metadata.labels.get("by")


async def test_standby_is_ready_and_reconciles_nothing(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    first, second = (Replica(kcr_clock, kcr_cluster.transport, name) for name in "ab")
    async with running(first, second):
        await kcr_clock.advance(30)
        assert await labels(kcr_cluster) == "a"
        assert first.labeller.began
        assert not second.labeller.began
        assert "[+]leader-election ok: standing by, a leads" in second.ready()
        assert "standing by" not in first.ready()
        assert len(second.manager.store(Namespace)) == len(first.manager.store(Namespace))


async def test_stopped_leader_ends_its_reconciles_before_it_releases(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # CM-22
    first, second = Replica(kcr_clock, kcr_cluster.transport, "a", 2.5), Replica(kcr_clock, kcr_cluster.transport, "b")
    async with running(first, second) as (task, _):
        await kcr_clock.advance(1)
        task.cancel()
        await kcr_clock.advance(1)
        assert not second.elector.leads
        await kcr_clock.advance(0.6)
        assert await labels(kcr_cluster, first.labeller.began[0]) == "a"
        # One retry period after the release.
        await kcr_clock.advance(2)
        assert second.elector.leads
        assert first.failure is None


async def test_new_leader_begins_with_warm_caches(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    first, second = (Replica(kcr_clock, kcr_cluster.transport, name) for name in "ab")
    async with running(first, second) as (task, _):
        await kcr_clock.advance(10)
        task.cancel()
        await kcr_clock.run_until(lambda: second.elector.leads, seconds=10)
        await kcr_clock.advance(0.1)
        assert set(second.labeller.began) == {item.key.name for item in second.manager.store(Namespace).list()}


async def test_lost_lease_ends_the_manager_without_grace(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    first = Replica(kcr_clock, kcr_cluster.transport, "a", 3.0)
    async with running(first) as (task,):
        await kcr_clock.advance(1)
        await kcr_cluster.client.merge_patch(Lease, LEASE, {"spec": {"holderIdentity": "thief"}})
        await kcr_clock.advance(1.1)
        assert task.done()
        assert isinstance(first.failure, LeadershipLostError)
        assert await labels(kcr_cluster, first.labeller.began[0]) is None


async def test_lost_lease_is_one_line_however_many_writes_are_refused(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    clock = ShiftedClock(kcr_clock)
    first = Replica(clock, kcr_cluster.transport, "a", 0.2)
    with capture_logs() as logs:
        async with running(first) as (task,):
            await kcr_clock.advance(0.1)
            logs.clear()
            # The machine sleeps, and another replica leads meanwhile; each key is reconciled, and its write refused.
            clock.suspended = 60
            await kcr_cluster.client.merge_patch(Lease, LEASE, {"spec": {"holderIdentity": "thief"}})
            await kcr_clock.advance(3)
            assert task.done()
    assert len(first.labeller.began) > 2
    told = [line["event"] for line in logs if line["log_level"] in ("warning", "error")]
    assert told == ["writes refused until the lease is renewed", "failed to renew lease, leader election lost"]


async def test_leader_that_cannot_reach_the_server_stops(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    wire = CrashingTransport(kcr_cluster.transport)
    first = Replica(kcr_clock, wire, "a")
    async with running(first) as (task,):
        await kcr_clock.advance(1)
        wire.crash_after(0)
        await kcr_clock.advance(20)
        assert task.done()
        assert isinstance(first.failure, LeadershipLostError)


async def test_leader_is_told_by_event_metric_and_log(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    with capture_logs() as logs:  # CM-37
        first = Replica(kcr_clock, kcr_cluster.transport, "a")
        async with running(first):
            await kcr_clock.advance(5)
            events = await kcr_cluster.client.list(Event, "default", fields="involvedObject.kind=Lease")
            assert [(event.reason, event.message) for event in events] == [("LeaderElection", "a became leader")]
            assert b'leader_election_master_status{name="web"} 1.0' in first.manager.metrics.render()[0]
    lines = [line["event"] for line in logs if line.get("lease") == "default/web"]
    assert lines[:3] == [
        "ready: caches are synced, standing by", "attempting to acquire leader lease", "new leader elected",
    ]  # fmt: skip


async def test_component_may_run_on_every_replica(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    first, second = (Replica(kcr_clock, kcr_cluster.transport, name) for name in "ab")
    for replica in (first, second):
        every = Labeller(replica.manager, "", 3600)
        replica.labeller = every
        replica.manager.add_controller("every", every, watches=[kcr.watch(Namespace)], needs_leader_election=False)
    async with running(first, second):
        await kcr_clock.advance(1)
        assert first.labeller.began
        assert second.labeller.began


async def test_managers_of_one_process_lead_and_lose_each_for_itself(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    # They relabel the same objects for ever, so each takes its time.
    first, second = (Replica(kcr_clock, kcr_cluster.transport, name, 0.5, lease=f"web-{name}") for name in "ab")
    async with running(first, second) as (task, other):
        await kcr_clock.advance(1)
        assert first.labeller.began
        assert second.labeller.began
        await kcr_cluster.client.merge_patch(Lease, Key("default", "web-a"), {"spec": {"holderIdentity": "thief"}})
        await kcr_clock.advance(5)
        assert task.done()
        assert isinstance(first.failure, LeadershipLostError)
        assert not other.done()
        second.labeller.began.clear()
        await kcr_cluster.client.create(Namespace(metadata=ObjectMeta(name="later")))
        await kcr_clock.advance(10)
        assert "later" in second.labeller.began
