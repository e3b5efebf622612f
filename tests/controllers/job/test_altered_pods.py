"""A webhook or policy that changes new pods so that their Job would lose them."""

from collections.abc import Callable
from typing import Any

import pytest

from kcr.api.core import Event, Pod
from kcr.controllers.job.explanation import ManagedJob, explain_job
from kcr.testing import CrashingTransport, FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.harness import create, finished, job_controller, manifest, pods_of, read
from tests.kit.transports import disown, of_metadata, unfinalize

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]


def relabel(metadata: dict[str, Any]) -> None:
    metadata["labels"] = {"team": "blue"}


async def refusals(cluster: EmbeddedCluster) -> list[Event]:
    events = await cluster.client.list(Event, "default", fields="involvedObject.kind=Job")
    return [event for event in events if event.reason == "FailedCreate"]


@pytest.mark.parametrize("mutate", [relabel, disown, unfinalize])
async def test_pods_that_a_webhook_alters_are_few_and_gone(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, mutate: Callable[[dict[str, Any]], None]
) -> None:
    webhook = FaultyTransport(kcr_cluster.transport)
    webhook.on("create", Pod).change(of_metadata(mutate))
    async with job_controller(kcr_cluster, kcr_clock, transport=webhook):
        await create(kcr_cluster.client, manifest(completions=3, parallelism=3))
        await kcr_clock.advance(30)
        # At 0, 1, 3, 7 and 15 s, or later, as the key is retried with backoff; Go's controller makes 90 in this time.
        told = sum(event.count for event in await refusals(kcr_cluster))
        assert 3 <= told <= 5
        assert not await kcr_cluster.client.list(Pod, "default")
        job = await read(kcr_cluster.client)
        assert (job.status.active, job.status.succeeded, job.status.failed) == (0, 0, 0)
        webhook.heal()
        await kcr_clock.advance(60)
        job = await finished(kcr_cluster.client)
        assert (job.status.succeeded, job.status.failed) == (3, 0)
        assert len(await pods_of(kcr_cluster.client)) == 3


async def test_warning_names_the_pod_and_explain_the_remedy(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    webhook = FaultyTransport(kcr_cluster.transport)
    webhook.on("create", Pod).change(of_metadata(relabel))
    async with job_controller(kcr_cluster, kcr_clock, transport=webhook):
        job = await create(kcr_cluster.client, manifest())
        await kcr_clock.advance(5)
        first = (await refusals(kcr_cluster))[0]
        assert first.message.startswith("Error creating: pod default/pi-")
        assert "batch.kubernetes.io/controller-uid is missing" in first.message
        made = await kcr_cluster.client.get(ManagedJob, job.key)
        told = await explain_job(kcr_cluster.client, made, await refusals(kcr_cluster), kcr_clock.now())
    assert told.headline == (
        "cannot create pods: a mutating webhook or policy changes them, so that their owner loses them"
    )
    assert any("kubectl get mutatingwebhookconfigurations" in remedy for remedy in told.remedies)


@pytest.mark.parametrize("write", [1, 4, *(pytest.param(write, marks=pytest.mark.soak) for write in (2, 3, 5, 6, 7))])
async def test_crash_leaves_no_pod_that_runs_or_counts(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, write: int
) -> None:
    """The process dies after any of its first writes; what it leaves behind is released, and free of its finalizer."""
    webhook = FaultyTransport(kcr_cluster.transport)
    webhook.on("create", Pod).change(of_metadata(relabel))
    wire = CrashingTransport(webhook)
    wire.crash_after(write)
    async with job_controller(kcr_cluster, kcr_clock, transport=wire):
        await create(kcr_cluster.client, manifest(completions=2))
        await kcr_clock.advance(10)
    assert wire.crashed.is_set()
    async with job_controller(kcr_cluster, kcr_clock, transport=webhook, seed=2):
        await kcr_clock.advance(30)
        strays = await kcr_cluster.client.list(Pod, "default")
        assert len(strays) <= 1
        assert not any(pod.metadata.finalizers or pod.metadata.owner_references for pod in strays)
        webhook.heal()
        job = await finished(kcr_cluster.client)
        assert (job.status.succeeded, job.status.failed) == (2, 0)


async def test_pod_that_is_relabelled_before_its_create_is_confirmed_is_released(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    wire = FaultyTransport(kcr_cluster.transport)
    wire.on("create", Pod, nth=1).lose_reply()
    label = {"metadata": {"labels": {"batch.kubernetes.io/controller-uid": None, "controller-uid": None}}}

    async def take_away() -> None:
        (pod,) = await kcr_cluster.client.list(Pod, "default")
        await kcr_cluster.client.merge_patch(Pod, pod.key, label)
        taken.append(pod.metadata.uid)

    taken = list[str]()
    wire.on("get", Pod, nth=1).then(take_away)
    async with job_controller(kcr_cluster, kcr_clock, transport=wire):
        await create(kcr_cluster.client, manifest())
        job = await finished(kcr_cluster.client)
        pods = await kcr_cluster.client.list(Pod, "default")
    assert (job.status.succeeded, job.status.failed) == (1, 0)
    assert not await refusals(kcr_cluster)
    # As upstream, which finds that the selector does not match: it lives on, without its Job.
    (released,) = (pod for pod in pods if pod.metadata.uid in taken)
    assert len(pods) == 2
    assert not released.metadata.owner_references
    assert not released.metadata.finalizers
    assert released.metadata.deletion_timestamp is None
