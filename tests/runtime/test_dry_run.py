"""Controllers whose writes are dry runs: nothing changes, and nothing loops because of that."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

import kcr
from kcr.api.batch import Job
from kcr.api.core import ConfigMap, Pod
from kcr.api.meta import Key, ObjectMeta
from kcr.controllers.job.controller import Options, setup
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.harness import create, manifest

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]

KEY = Key("default", "pi")


def dry_manager(cluster: EmbeddedCluster, clock: VirtualClock) -> kcr.Manager:
    client = kcr.Client(cluster.transport).with_options(dry_run=True)
    return kcr.Manager(client, clock=clock, random=random.Random(0))


@asynccontextmanager
async def dry_jobs(cluster: EmbeddedCluster, clock: VirtualClock) -> AsyncIterator[list[dict[str, Any]]]:
    """Run the Job controller; yields what it would have written."""
    with capture_logs() as logs:
        manager = dry_manager(cluster, clock)
        setup(manager, Options(take_over=True))
        written: list[dict[str, Any]] = []
        async with manager.running():
            yield written
        written += [dict(line) for line in logs if line["event"] == "dry run: accepted, not stored"]


@pytest.mark.parametrize(
    "pods",
    [pytest.param(3, id="few"), pytest.param(600, id="more-than-one-reconcile-creates", marks=pytest.mark.soak)],
)
async def test_job_gets_no_pods_and_no_status(kcr_clock: VirtualClock, pods: int) -> None:
    async with (
        EmbeddedCluster(clock=kcr_clock, random=random.Random(0), runtime=None) as cluster,
        dry_jobs(cluster, kcr_clock) as written,
    ):
        job = await create(cluster.client, manifest(completions=pods, parallelism=pods))
        await kcr_clock.advance(60)
        assert await cluster.client.get(Job, KEY) == job
        assert not await cluster.client.list(Pod)
    creates = [line for line in written if "/pods/pi-" in line["object"]]
    assert {line["verb"] for line in creates} == {"create"}
    # Reconciled once, or for each batch of five hundred once in ten seconds.
    assert len(creates) == 3 if pods == 3 else 500 <= len(creates) <= 7 * 500


async def test_reconciler_that_goes_on_at_once_is_slowed_down(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    class Eager:
        """Creates what it lacks, and looks again at once."""

        runs = 0

        async def reconcile(self, key: Key) -> kcr.Result:
            self.runs += key == KEY
            return kcr.Result(requeue_after=0)

    manager, eager = dry_manager(kcr_cluster, kcr_clock), Eager()
    manager.add_controller("eager", eager, watches=[kcr.watch(ConfigMap)])
    await kcr_cluster.client.create(ConfigMap(metadata=ObjectMeta(name=KEY.name, namespace=KEY.namespace)))
    async with manager.running():
        await kcr_clock.advance(60)
    assert 6 <= eager.runs <= 7


async def test_key_that_has_to_wait_keeps_its_priority(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    priorities: list[int] = []

    class Recorder:
        async def reconcile(self, key: Key) -> kcr.Result:
            priorities.append(controller.queue.priority(key))
            return kcr.Result()

    manager = dry_manager(kcr_cluster, kcr_clock)
    controller = manager.add_controller("recorder", Recorder())
    async with manager.running():
        for _ in range(2):
            controller.queue.add(KEY, priority=7)
            await kcr_clock.advance(1)
        assert priorities == [7]
        await kcr_clock.advance(10)
    assert priorities == [7, 7]


async def test_requests_sent_by_hand_are_dry_too(kcr_cluster: EmbeddedCluster) -> None:
    client = kcr.Client(kcr_cluster.transport).with_options(dry_run=True)
    path = "/api/v1/namespaces/default/configmaps"
    await client.request("POST", path, b'{"metadata":{"name":"a"}}')
    await kcr_cluster.client.create(ConfigMap(metadata=ObjectMeta(name="b", namespace="default")))
    await client.request("DELETE", f"{path}/b", b"{}")
    assert {found.metadata.name for found in await kcr_cluster.client.list(ConfigMap, "default")} >= {"b"}
    with pytest.raises(kcr.NotFoundError):
        await kcr_cluster.client.get(ConfigMap, Key("default", "a"))
