"""Labels of slots that a user changes while Jobs run under sharding (CM-66)."""

import random
from contextlib import AsyncExitStack
from typing import Any

import pytest

from kcr.api.core import Pod
from kcr.api.slots import SLOT_LABEL, shard_of, slot_of
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from tests.kit.harness import create, finished, job_controller, manifest, nothing_left_behind, pods_of
from tests.kit.replicas import sharded_replica

pytestmark = pytest.mark.kcr_virtual


def a_minute(pod: Any, container: str, restarts: int) -> RunResult:
    return RunResult(run_for=60)


@pytest.mark.parametrize("label", ["another replica's", pytest.param(None, marks=pytest.mark.soak)])
async def test_pod_whose_label_is_changed_is_neither_lost_nor_replaced(
    kcr_clock: VirtualClock, label: str | None
) -> None:
    async with (
        EmbeddedCluster(clock=kcr_clock, random=random.Random(0), on_run=a_minute) as cluster,
        AsyncExitStack() as stack,
    ):
        replicas = [sharded_replica(cluster, kcr_clock, name, shards=2) for name in "ab"]
        for one in replicas:
            await stack.enter_async_context(job_controller(cluster, kcr_clock, leader_election=one))
        await kcr_clock.advance(10)
        job = await create(cluster.client, manifest("pi"))
        await kcr_clock.advance(10)
        (pod,) = await pods_of(cluster.client, "pi")
        slot = slot_of(job.metadata)
        other = next(str(one) for one in range(64) if shard_of(one, 2) != shard_of(slot, 2))
        change = {"metadata": {"labels": {SLOT_LABEL: label and other}}}
        await cluster.client.merge_patch(Pod, pod.key, change)
        await kcr_clock.advance(30)
        (pod,) = await pods_of(cluster.client, "pi")
        # Without a label it is in the slot of its Job.
        assert pod.metadata.labels.get(SLOT_LABEL) == (label and str(slot))
        assert pod.metadata.deletion_timestamp is None
        job = await finished(cluster.client, "pi", seconds=1200)
        assert (job.status.succeeded, job.status.failed) == (1, 0)
        pods = await pods_of(cluster.client, "pi")
        assert len(pods) == 1
        assert nothing_left_behind(pods)
