"""`indexed.yaml`: every pod knows its index (seed 001)."""

from random import Random

import pytest

from kcr.clock import SystemClock
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from tests.kit.harness import create, example, finished, job_controller, pods_of
from tests.kit.observers import observing_pods

INDEX = "batch.kubernetes.io/job-completion-index"


@pytest.mark.asyncio
@pytest.mark.timeout(60)
async def test_every_pod_knows_its_index_three_ways() -> None:
    # Examples row 17; job-controller row 68. The commands really run.
    async with EmbeddedCluster(runtime="process") as cluster, job_controller(cluster, SystemClock()):
        await create(cluster.client, example("indexed"))
        job = await finished(cluster.client, "indexed", seconds=50)
        pods = await pods_of(cluster.client, "indexed")
        path = "/api/v1/namespaces/default/pods"
        logs = [await cluster.client.request("GET", f"{path}/{pod.metadata.name}/log") for pod in pods]
    assert job.status.completed_indexes == "0-2"
    assert sorted(log.decode() for log in logs) == [
        f"variable {index} hostname indexed-{index} annotation {index}\n" for index in range(3)
    ]
    for pod in pods:
        assert pod.metadata.labels[INDEX] == pod.metadata.annotations[INDEX]


@pytest.mark.kcr_virtual
async def test_failed_index_is_made_again(kcr_clock: VirtualClock) -> None:
    # Examples row 17; job-controller rows 69 to 71.
    ends = iter([RunResult(run_for=5), RunResult(run_for=5, exit_code=1)])
    async with (
        EmbeddedCluster(
            clock=kcr_clock, random=Random(0), on_run=lambda *_: next(ends, RunResult(run_for=5))
        ) as cluster,
        observing_pods(cluster) as seen,
        job_controller(cluster, kcr_clock),
    ):
        await create(cluster.client, example("indexed"))
        job = await finished(cluster.client, "indexed")
        pods = await pods_of(cluster.client, "indexed")
    failed = next(pod.metadata.annotations[INDEX] for pod in pods if pod.status.phase == "Failed")
    assert [pod.metadata.annotations[INDEX] for pod in pods].count(failed) == 2
    assert (job.status.completed_indexes, job.status.succeeded, job.status.failed) == ("0-2", 3, 1)
    assert len(seen.phases) == 4
