"""A proxy before the API server that answers by itself, or mangles answers: nothing is concluded from that."""

from typing import Any

import pytest

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.controllers.job.decisions.pods import is_tracked
from kcr.errors import ForbiddenError
from kcr.testing import FaultyTransport, VirtualClock, eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.losses import LOSSES, Loss
from tests.kit.harness import conditions, create, finished, job_controller, manifest, pods_of
from tests.kit.observers import observing_pods

pytestmark = pytest.mark.kcr_virtual

INDEXED: dict[str, Any] = {"completionMode": "Indexed", "completions": 3, "parallelism": 1}


@pytest.mark.parametrize("code", [403, 404, 409, 410, 422])
async def test_proxys_page_leaves_no_finalizer(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, code: int
) -> None:
    faults = FaultyTransport(kcr_cluster.transport)
    async with job_controller(kcr_cluster, kcr_clock, transport=faults):
        await create(kcr_cluster.client, manifest(completions=2))
        faults.on("patch", Pod, nth=1).lose_request(page=code)
        await finished(kcr_cluster.client, seconds=60)
        assert not any(map(is_tracked, await pods_of(kcr_cluster.client)))


async def test_proxys_page_leaves_no_finalizer_of_an_orphan(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    faults = FaultyTransport(kcr_cluster.transport)
    async with job_controller(kcr_cluster, kcr_clock, transport=faults):
        await create(kcr_cluster.client, manifest(annotations={"sim.kcr.dev/run-for": "forever"}))
        await kcr_clock.advance(5)
        faults.on("patch", Pod).lose_request(page=404)
        await kcr_cluster.client.delete(Job, Key("default", "pi"), propagation="Orphan")
        await kcr_clock.advance(2)
        faults.heal()
        await kcr_clock.advance(60)
        assert [is_tracked(pod) for pod in await pods_of(kcr_cluster.client)] == [False]


@pytest.mark.parametrize("nth", [1, pytest.param(2, marks=pytest.mark.soak)])
@pytest.mark.parametrize("loss", LOSSES)
async def test_creation_with_a_spoiled_answer_runs_no_index_twice(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, loss: Loss, nth: int
) -> None:
    faults = FaultyTransport(kcr_cluster.transport)
    faults.on("create", Pod, nth=nth).lose_reply(loss)
    faults.on("watch", Pod).lag(3)
    async with job_controller(kcr_cluster, kcr_clock, transport=faults), observing_pods(kcr_cluster) as seen:
        await create(kcr_cluster.client, manifest(**INDEXED, annotations={"sim.kcr.dev/run-for": "5s"}))
        job = await finished(kcr_cluster.client, seconds=600)
    assert (job.status.completed_indexes, job.status.succeeded, job.status.failed) == ("0-2", 3, 0)
    assert (len(seen.phases), seen.most_active) == (3, 1)


@pytest.mark.parametrize("loss", LOSSES)
async def test_creation_whose_pod_cannot_be_looked_for_is_not_repeated(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, loss: Loss
) -> None:
    # First the answers to the creation are mangled, then those to the look whether the pod is there.
    faults = FaultyTransport(kcr_cluster.transport)
    faults.on("create", Pod, nth=1).lose_reply(loss)
    for nth in (2, 3, 4):
        faults.on("create", Pod, nth=nth).lose_request(page=404)
    faults.on("get", Pod, nth=1).lose_request(page=404)
    faults.on("get", Pod, nth=2).fail(ForbiddenError)
    async with job_controller(kcr_cluster, kcr_clock, transport=faults), observing_pods(kcr_cluster) as seen:
        faults.on("watch", Pod).fail(ForbiddenError)
        faults.on("list", Pod).fail(ForbiddenError)
        await create(kcr_cluster.client, manifest(**INDEXED, annotations={"sim.kcr.dev/run-for": "20s"}))
        await kcr_clock.advance(15)
        faults.heal()
        await finished(kcr_cluster.client, seconds=900)
    assert len(seen.phases) == 3


@pytest.mark.parametrize("page", [404, 409])
async def test_page_instead_of_a_status_write_counts_each_pod_once(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, page: int
) -> None:
    faults = FaultyTransport(kcr_cluster.transport)
    faults.on("patch", Job, chance=0.5).lose_request(page=page)
    faults.on("patch", Job, chance=0.5).lose_reply("404")
    async with job_controller(kcr_cluster, kcr_clock, transport=faults):
        await create(kcr_cluster.client, manifest(completions=5, parallelism=2))
        await kcr_clock.advance(60)
        faults.heal()
        job = await eventually(lambda: finished(kcr_cluster.client, seconds=300), seconds=300)
    assert job is not None
    assert (conditions(job)[-1], job.status.succeeded) == (("Complete", "CompletionsReached"), 5)
