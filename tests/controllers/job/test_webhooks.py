"""A Job whose pods pass webhooks that are slow, deny, panic, time out, or come and go: no pod is lost or surplus."""

import asyncio
from collections import Counter
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

import kcr
from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.testing import CrashingTransport, FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.harness import create, finished, job_controller, manifest, pods_of
from tests.kit.observers import observing_pods

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.kcr_cluster(deployments=False)]

SEEDS = [*range(3), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 60))]
COUNT = 12


class PodWebhook:
    """Labels pods after a while; some reviews are denied, fail, or take too long."""

    def __init__(self, random: Random, trouble: float) -> None:
        self._random, self._trouble = random, trouble
        self.reviews: Counter[str] = Counter()

    async def default(self, obj: Pod, request: kcr.WebhookRequest) -> Pod:
        self.reviews["default"] += 1
        await asyncio.sleep(self._random.uniform(0, 2))
        return replace(obj, metadata=replace(obj.metadata, labels={**obj.metadata.labels, "team": "blue"}))

    async def validate_create(self, obj: Pod, request: kcr.WebhookRequest) -> None:
        self.reviews["create"] += 1
        assert obj.metadata.labels["team"] == "blue"
        if self._random.random() >= self._trouble:
            return
        match self._random.randrange(3):
            case 0:
                raise kcr.Denied("not now")
            case 1:
                raise ZeroDivisionError
            case _:
                await asyncio.sleep(60)

    async def validate_update(self, old: Pod, new: Pod, request: kcr.WebhookRequest) -> None:
        self.reviews["update"] += 1
        await asyncio.sleep(self._random.uniform(0, 0.5))

    async def validate_delete(self, old: Pod, request: kcr.WebhookRequest) -> None:
        self.reviews["delete"] += 1


def webhook_manager(cluster: EmbeddedCluster, clock: VirtualClock, webhook: Any) -> kcr.Manager:
    manager = kcr.Manager(cluster.client, clock=clock, random=Random(9))
    manager.add_webhook(Pod, webhook, timeout_seconds=3)
    return manager


async def run_indexed(cluster: EmbeddedCluster, *, name: str = "pi", **spec: Any) -> Job:
    await create(cluster.client, manifest(name, completions=COUNT, completionMode="Indexed", parallelism=4, **spec))
    return await finished(cluster.client, name, seconds=3600)


def index_of(pod: Pod) -> str:
    return pod.metadata.labels["batch.kubernetes.io/job-completion-index"]


async def check(cluster: EmbeddedCluster, seen: Any) -> None:
    """Fail if an index had more than one pod, or a pod passed by the webhook."""
    pods = await pods_of(cluster.client)
    assert sorted(Counter(map(index_of, pods)).items()) == sorted((str(index), 1) for index in range(COUNT))
    assert len(seen.all) == COUNT
    assert {pod.metadata.labels.get("team") for pod in pods} == {"blue"}


@pytest.mark.parametrize("seed", SEEDS)
async def test_troubled_webhook_costs_no_pod(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, seed: int) -> None:
    webhook = PodWebhook(Random(seed), trouble=0.3)
    async with (
        observing_pods(kcr_cluster) as seen,
        webhook_manager(kcr_cluster, kcr_clock, webhook).running(),
        job_controller(kcr_cluster, kcr_clock, seed=seed),
    ):
        job = await run_indexed(kcr_cluster)
        assert (job.status.succeeded, job.status.failed) == (COUNT, 0)
        await check(kcr_cluster, seen)
    assert webhook.reviews["create"] >= COUNT
    # Finalizers are removed through the webhook, too.
    assert webhook.reviews["update"] >= COUNT


@pytest.mark.parametrize("seed", SEEDS)
async def test_replies_lost_behind_a_slow_webhook_make_no_second_pod(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, seed: int
) -> None:
    faults = FaultyTransport(kcr_cluster.transport, random=Random(seed))
    for number in range(1, COUNT, 2):
        faults.on("create", Pod, nth=number).lose_reply()
    webhook = PodWebhook(Random(seed), trouble=0.2)
    async with (
        observing_pods(kcr_cluster) as seen,
        webhook_manager(kcr_cluster, kcr_clock, webhook).running(),
        job_controller(kcr_cluster, kcr_clock, transport=faults, seed=seed),
    ):
        job = await run_indexed(kcr_cluster)
        assert job.status.succeeded == COUNT
        await check(kcr_cluster, seen)


@pytest.mark.parametrize("seed", SEEDS)
async def test_controller_that_dies_during_reviews_makes_no_second_pod(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, seed: int
) -> None:
    random, webhook = Random(seed), PodWebhook(Random(seed), trouble=0.1)
    async with observing_pods(kcr_cluster) as seen, webhook_manager(kcr_cluster, kcr_clock, webhook).running():
        await create(kcr_cluster.client, manifest(completions=COUNT, completionMode="Indexed", parallelism=4))
        for life in range(4):
            wire = CrashingTransport(kcr_cluster.transport)
            wire.crash_after(random.randrange(1, 12))
            async with job_controller(kcr_cluster, kcr_clock, transport=wire, seed=life):
                await kcr_clock.advance(random.uniform(1, 8))
        async with job_controller(kcr_cluster, kcr_clock, seed=9):
            job = await finished(kcr_cluster.client, seconds=3600)
        assert job.status.succeeded == COUNT
        await check(kcr_cluster, seen)


async def test_webhook_that_starts_and_ends_meanwhile_is_no_obstacle(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with job_controller(kcr_cluster, kcr_clock), asyncio.TaskGroup() as group:
        job = group.create_task(run_indexed(kcr_cluster))
        for seed in range(3):
            async with webhook_manager(kcr_cluster, kcr_clock, PodWebhook(Random(seed), trouble=0.5)).running():
                await kcr_clock.advance(5)
        assert (await job).status.succeeded == COUNT
    assert len(await pods_of(kcr_cluster.client)) == COUNT
