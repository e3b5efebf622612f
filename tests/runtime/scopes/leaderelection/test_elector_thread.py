"""An elector on a thread of its own, with a server there: in real time, so with short durations."""

import asyncio
import gc
import random
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

import kcr
from kcr.api.coordination import Lease
from kcr.api.core import ConfigMap
from kcr.api.meta import ObjectMeta
from kcr.client import Client
from kcr.clock import SystemClock
from kcr.errors import LeadershipLostError
from kcr.scopes.leaderelection import ElectorThread, LeaderElectionConfig
from kcr.scopes.leaderelection.elector import ElectionLoop
from kcr.testing import eventually
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.clocks import ShiftedClock

pytestmark = pytest.mark.asyncio

# The next renewal comes when a test is over.
CONFIG = LeaderElectionConfig(name="web", identity="a", lease_duration=40, renew_deadline=30, retry_period=20)
OTHERS = {"holderIdentity": "b", "leaseDurationSeconds": 60}


class Thread:
    """An `ElectorThread`, and clocks that a test shifts."""

    def __init__(self, lease: dict[str, object] | None = None, **config: float) -> None:
        self.clock = ShiftedClock(SystemClock())
        given = replace(CONFIG, **config)  # type: ignore[arg-type]  # the durations
        self.elector = ElectorThread(self._connect, given, clock=self.clock, random=random.Random(1))
        self._lease = lease

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[Client]:
        async with EmbeddedCluster(runtime=None, gc=False, deployments=False) as cluster:
            if self._lease is not None:
                manifest = {"metadata": {"name": CONFIG.name}, "spec": self._lease}
                await cluster.client.create_manifest(Lease, manifest, CONFIG.namespace)
            yield cluster.client

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ElectorThread]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.elector.run())
            yield self.elector
            task.cancel()


def client_of(cluster: EmbeddedCluster, elector: ElectorThread) -> Client:
    return kcr.Manager(cluster.client, leader_election=elector).client


def config_map(name: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"))


async def test_leader_on_a_thread_leads_and_writes() -> None:
    async with EmbeddedCluster(runtime=None) as cluster, Thread().running() as elector:
        assert not elector.leads
        elector.check()
        await elector.elected.wait()
        assert elector.leads
        assert elector.lease is not None
        assert elector.leading_since > 0
        assert elector.standby_remark() == ""
        await client_of(cluster, elector).create(config_map("a"))


async def test_managers_writes_are_fenced_by_the_thread() -> None:  # CM-36
    thread = Thread()
    async with EmbeddedCluster(runtime=None) as cluster, thread.running() as elector:
        await elector.elected.wait()
        client = client_of(cluster, elector)
        thread.clock.suspended = 39
        with pytest.raises(LeadershipLostError):
            await client.create(config_map("a"))
        assert not await client.list(ConfigMap, "default", fields="metadata.name=a")
        assert elector.overdue() == ""
        thread.clock.suspended = 61
        assert "failed election to renew leadership" in elector.overdue()


async def test_fence_stays_closed_when_the_thread_has_ended() -> None:
    thread = Thread()
    async with thread.running() as elector:
        await elector.elected.wait()
    assert not elector.leads
    with pytest.raises(LeadershipLostError):
        elector.check()


async def test_standby_on_a_thread_is_neither_leader_nor_overdue() -> None:
    thread = Thread(OTHERS)
    async with thread.running() as elector:
        await eventually(lambda: "b leads" in elector.standby_remark())
        thread.clock.suspended = 3600
        assert (elector.leads, elector.overdue(), elector.elected.is_set()) == (False, "", False)
        elector.check()


def block(seconds: float) -> None:
    """Block the event loop, as a reconcile does that never awaits."""
    threading.Event().wait(seconds)


async def test_loop_blocked_for_a_moment_delays_no_renewal() -> None:  # CM-36
    async with Thread(retry_period=0.05).running() as elector:
        await elector.elected.wait()
        before = elector.lease
        block(0.3)
        assert elector.leads
        assert elector.lease != before


@pytest.mark.soak
async def test_loop_that_is_never_blocked_keeps_the_lease() -> None:  # CM-36
    async with Thread(renew_deadline=2, retry_period=0.05).running() as elector:
        await elector.elected.wait()
        await asyncio.sleep(2.5)
        before = elector.lease
        await eventually(lambda: elector.lease != before)
        assert elector.leads


async def test_loop_blocked_for_long_loses_the_lease() -> None:  # CM-36
    with pytest.raises(ExceptionGroup) as lost:
        async with Thread(lease_duration=1, renew_deadline=0.2, retry_period=0.05).running() as elector:
            await elector.elected.wait()
            block(0.6)
            assert not elector.leads
            await asyncio.sleep(1)
    assert lost.group_contains(LeadershipLostError)


async def test_campaign_that_fails_while_it_is_cancelled_leaves_no_traceback() -> None:
    begun, errors = threading.Event(), list[dict[str, object]]()

    async def fails_at_its_end() -> None:
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            raise LeadershipLostError("lost meanwhile")

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: errors.append(context))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(ElectionLoop(CONFIG).run(fails_at_its_end, lambda: None))
        await eventually(begun.is_set)
        running.cancel()
    del running
    # A future whose exception was not retrieved reports it when it is collected.
    gc.collect()
    await asyncio.sleep(0)
    assert not errors
