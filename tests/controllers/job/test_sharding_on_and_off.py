"""Jobs that run while sharding is turned on and off, with all replicas stopped in between (CM-66)."""

import random
from contextlib import AsyncExitStack
from typing import Any

import pytest

from kcr.api.slots import SLOT_LABEL
from kcr.client import Client
from kcr.leaderelection import LeaderElectionConfig
from kcr.sharding import ShardedReplica
from kcr.sharding.replica import same_loop
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from tests.kit.harness import create, finished, job_controller, manifest, nothing_left_behind, pods_of

pytestmark = pytest.mark.kcr_virtual

JOBS = [f"pi-{number}" for number in range(8)]


def a_minute(pod: Any, container: str, restarts: int) -> RunResult:
    return RunResult(run_for=60)


def replica(cluster: EmbeddedCluster, clock: VirtualClock, name: str) -> ShardedReplica:
    config = LeaderElectionConfig(name="job", identity=name)
    connect = same_loop(Client(cluster.transport))
    return ShardedReplica(connect, config, 8, clock=clock, random=random.Random(name), on_thread=False)


async def test_pods_of_before_sharding_are_counted_by_the_replica_of_their_job(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=random.Random(0), on_run=a_minute) as cluster:
        async with job_controller(cluster, kcr_clock):
            for name in JOBS:
                await create(cluster.client, manifest(name, completions=4, parallelism=2))
            await kcr_clock.advance(30)
        async with AsyncExitStack() as stack:
            for name in "abc":
                election = replica(cluster, kcr_clock, name)
                await stack.enter_async_context(job_controller(cluster, kcr_clock, leader_election=election))
            await kcr_clock.advance(60)
            labels = [pod.metadata.labels for name in JOBS for pod in await pods_of(cluster.client, name)]
            assert {SLOT_LABEL in one for one in labels} == {False, True}
        async with job_controller(cluster, kcr_clock):
            for name in JOBS:
                job = await finished(cluster.client, name)
                assert (job.status.succeeded, job.status.failed) == (4, 0)
                pods = await pods_of(cluster.client, name)
                assert len(pods) == 4
                assert nothing_left_behind(pods)
