"""Jobs that run while sharding is turned on and off, and while the number of shards changes (CM-66)."""

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from kcr.api.slots import SLOT_LABEL
from kcr.scopes.leaderelection import LeaderElectionConfig, LeaderElector
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from tests.kit.harness import create, finished, job_controller, manifest, nothing_left_behind, pods_of
from tests.kit.replicas import sharded_replica

pytestmark = pytest.mark.kcr_virtual

JOBS = [f"pi-{number}" for number in range(8)]
ALL = set(range(8))


def a_minute(pod: Any, container: str, restarts: int) -> RunResult:
    return RunResult(run_for=60)


@asynccontextmanager
async def jobs(clock: VirtualClock) -> AsyncIterator[EmbeddedCluster]:
    """A cluster with Jobs whose pods take a minute; each has four pods at the end."""
    async with EmbeddedCluster(clock=clock, random=random.Random(0), on_run=a_minute) as cluster:
        for name in JOBS:
            await create(cluster.client, manifest(name, completions=4, parallelism=2))
        yield cluster
        async with job_controller(cluster, clock):
            for name in JOBS:
                job = await finished(cluster.client, name)
                assert (job.status.succeeded, job.status.failed) == (4, 0)
                pods = await pods_of(cluster.client, name)
                assert len(pods) == 4
                assert nothing_left_behind(pods)


def candidate(cluster: EmbeddedCluster, clock: VirtualClock, name: str) -> LeaderElector:
    config = LeaderElectionConfig(name="job", identity=name)
    return LeaderElector(cluster.client, config, clock=clock, random=random.Random(name))


async def test_pods_of_before_sharding_are_counted_by_the_replica_of_their_job(kcr_clock: VirtualClock) -> None:
    async with jobs(kcr_clock) as cluster:
        async with job_controller(cluster, kcr_clock):
            await kcr_clock.advance(30)
        async with AsyncExitStack() as stack:
            for name in "abc":
                election = sharded_replica(cluster, kcr_clock, name)
                await stack.enter_async_context(job_controller(cluster, kcr_clock, leader_election=election))
            await kcr_clock.advance(60)
            labels = [pod.metadata.labels for name in JOBS for pod in await pods_of(cluster.client, name)]
            assert {SLOT_LABEL in one for one in labels} == {False, True}


@pytest.mark.soak
async def test_rolling_update_turns_sharding_on_and_off(kcr_clock: VirtualClock) -> None:
    async with jobs(kcr_clock) as cluster:
        old, new = candidate(cluster, kcr_clock, "old"), candidate(cluster, kcr_clock, "new")
        first, second = (sharded_replica(cluster, kcr_clock, name) for name in "ab")
        async with AsyncExitStack() as leading, AsyncExitStack() as sharing, AsyncExitStack() as last:
            await leading.enter_async_context(job_controller(cluster, kcr_clock, leader_election=old))
            await kcr_clock.advance(10)
            for one in (first, second):
                await sharing.enter_async_context(job_controller(cluster, kcr_clock, leader_election=one))
            await kcr_clock.advance(30)
            assert not first.shards.held
            assert second.shards.remark() == "standing by, old leads"
            await leading.aclose()
            await kcr_clock.advance(5)
            assert set(first.shards.held) | set(second.shards.held) == ALL
            await last.enter_async_context(job_controller(cluster, kcr_clock, leader_election=new))
            await kcr_clock.advance(30)
            assert new.standby_remark() == "standing by, sharded-8 leads"
            await sharing.aclose()
            await kcr_clock.advance(5)
            assert new.leads
            await kcr_clock.advance(30)


@pytest.mark.soak
async def test_rolling_update_changes_the_number_of_shards(kcr_clock: VirtualClock) -> None:
    async with jobs(kcr_clock) as cluster:
        before, after = sharded_replica(cluster, kcr_clock, "a"), sharded_replica(cluster, kcr_clock, "b", shards=4)
        async with AsyncExitStack() as leaving, AsyncExitStack() as staying:
            await leaving.enter_async_context(job_controller(cluster, kcr_clock, leader_election=before))
            await staying.enter_async_context(job_controller(cluster, kcr_clock, leader_election=after))
            await kcr_clock.advance(30)
            assert set(before.shards.held) == ALL
            assert not after.shards.held
            await leaving.aclose()
            await kcr_clock.advance(5)
            assert set(after.shards.held) == set(range(4))
