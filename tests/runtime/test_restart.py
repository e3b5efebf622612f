"""What a controller does first when it starts beside many objects: what changes, not what is there."""

import asyncio
import random

import pytest

import kcr
from kcr.api.batch import Job
from kcr.api.core import ConfigMap
from kcr.api.meta import ObjectMeta
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.harness import create, job_controller, manifest, pods_of

pytestmark = pytest.mark.kcr_virtual

MANY = 120


class Slow:
    """Takes a second for each object."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        await asyncio.sleep(1)
        self.seen.append(key.name)
        return kcr.Result()


async def create_config(cluster: EmbeddedCluster, name: str) -> None:
    await cluster.client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))


async def test_new_object_does_not_wait_for_those_of_the_initial_list(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # WQ-30
    for number in range(MANY):
        await create_config(kcr_cluster, f"old-{number}")
    slow = Slow()
    manager = kcr.Manager(kcr_cluster.client, clock=kcr_clock, random=random.Random(0))
    manager.add_controller("slow", slow, watches=[kcr.watch(ConfigMap)])
    async with manager.running():
        await kcr_clock.advance(3.5)
        await create_config(kcr_cluster, "new")
        await kcr_clock.advance(2)
        assert slow.seen[-1] == "new"
        assert len(slow.seen) == 5
        await kcr_clock.advance(MANY)
    assert sorted(slow.seen) == sorted(["new", *(f"old-{number}" for number in range(MANY))])


async def test_objects_that_did_not_change_are_reconciled_under_constant_load(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # WQ-32
    for number in range(3):
        await create_config(kcr_cluster, f"old-{number}")
    slow = Slow()
    manager = kcr.Manager(kcr_cluster.client, clock=kcr_clock, random=random.Random(0))
    controller = manager.add_controller("slow", slow, watches=[kcr.watch(ConfigMap)])
    async with manager.running():
        for number in range(135):
            controller.queue.add(kcr.Key("default", f"busy-{number}"))
            await kcr_clock.advance(1)
    assert {"old-1", "old-2"} <= set(slow.seen[110:])


async def test_new_job_starts_beside_many_that_have_not_been_looked_at(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # WQ-30
    for number in range(MANY):
        await create(kcr_cluster.client, manifest(f"old-{number}", suspend=True))
    slow = FaultyTransport(kcr_cluster.transport)
    slow.on("patch").delay(1)
    slow.on("create").delay(1)
    async with job_controller(kcr_cluster, kcr_clock, transport=slow, workers=1):
        await kcr_clock.advance(2.5)
        await create(kcr_cluster.client, manifest("new"))
        # What was under way, the status of the new Job with its start, and its pod.
        await kcr_clock.advance(3)
        assert len(await pods_of(kcr_cluster.client, "new")) == 1
        suspended = [job for job in await kcr_cluster.client.list(Job) if job.status.conditions]
        assert len(suspended) < 5
