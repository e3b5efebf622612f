"""`pod-failure-policy.yaml` (seed 001)."""

from random import Random

import pytest

from kcr.testing import VirtualClock, eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from tests.kit.harness import conditions, create, ended, example, finished, job_controller, pods_of, read
from tests.kit.observers import observing_pods

pytestmark = pytest.mark.kcr_virtual

JOB = "job-pod-failure-policy-example"


async def test_exit_42_fails_the_whole_job(kcr_clock: VirtualClock) -> None:
    # Examples row 5; job-controller row 97.
    async with (
        EmbeddedCluster(
            clock=kcr_clock, random=Random(0), on_run=lambda *_: RunResult(exit_code=42, run_for=5)
        ) as cluster,
        observing_pods(cluster) as seen,
        job_controller(cluster, kcr_clock),
    ):
        await create(cluster.client, example("pod-failure-policy"))
        job = await finished(cluster.client, JOB)
        names = [pod.metadata.name for pod in await pods_of(cluster.client, JOB)]
    assert conditions(job) == [("FailureTarget", "PodFailurePolicy"), ("Failed", "PodFailurePolicy")]
    end = "failed with exit code 42 matching FailJob rule at index 0"
    # All three have failed at the same moment.
    assert job.status.conditions[-1].message in [f"Container main for pod default/{name} {end}" for name in names]
    assert (job.status.active, job.status.failed, len(seen.phases)) == (0, 3, 3)


async def test_evicted_pod_is_replaced_and_not_counted(kcr_clock: VirtualClock) -> None:
    # Examples row 5; job-controller row 98.
    async with (
        EmbeddedCluster(clock=kcr_clock, random=Random(0), on_run=lambda *_: RunResult(run_for=60)) as cluster,
        observing_pods(cluster) as seen,
        job_controller(cluster, kcr_clock),
    ):
        await create(cluster.client, example("pod-failure-policy"))
        await kcr_clock.advance(5)
        first, *_ = await pods_of(cluster.client, JOB)
        await cluster.client.evict(first.key)
        await eventually(lambda: len(seen.phases) == 4, seconds=60)
        assert (await read(cluster.client, JOB)).status.failed == 0
        job = await finished(cluster.client, JOB)
    assert (job.status.succeeded, job.status.failed, len(seen.phases)) == (12, 0, 13)


@pytest.mark.soak
async def test_ordinary_failure_is_counted_and_tried_again(kcr_clock: VirtualClock) -> None:
    # Examples row 5; job-controller row 99.
    ends = iter([RunResult(exit_code=1, run_for=5)])
    async with (
        EmbeddedCluster(
            clock=kcr_clock, random=Random(0), on_run=lambda *_: next(ends, RunResult(run_for=60))
        ) as cluster,
        job_controller(cluster, kcr_clock),
    ):
        await create(cluster.client, example("pod-failure-policy"))
        await kcr_clock.advance(20)
        assert (await read(cluster.client, JOB)).status.failed == 1
        assert await ended(cluster.client, JOB) is None
        job = await finished(cluster.client, JOB)
    assert (job.status.succeeded, job.status.failed) == (12, 1)
