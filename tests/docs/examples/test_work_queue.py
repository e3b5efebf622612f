"""`work-queue.yaml`: a Job without completions (seed 001)."""

from random import Random
from typing import Any

import pytest

from kcr.api.batch import Job
from kcr.api.meta import Key
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from tests.kit.harness import create, ended, example, finished, job_controller, pods_of, read
from tests.kit.observers import observing_pods

pytestmark = pytest.mark.kcr_virtual


async def test_first_success_stops_all_creation(kcr_clock: VirtualClock) -> None:
    # Examples row 16; job-controller rows 19 to 24.
    ends = iter([RunResult(run_for=5), RunResult(run_for=30, exit_code=1), RunResult(run_for=60)])
    async with (
        EmbeddedCluster(clock=kcr_clock, random=Random(0), on_run=lambda *_: next(ends)) as cluster,
        observing_pods(cluster) as seen,
        job_controller(cluster, kcr_clock),
    ):
        await create(cluster.client, example("work-queue"))
        await kcr_clock.advance(45)
        status = (await read(cluster.client, "work-queue")).status
        assert (status.active, status.succeeded, status.failed) == (1, 1, 1)
        job = await finished(cluster.client, "work-queue")
    assert job.spec.completions is None
    assert (job.status.succeeded, job.status.failed, len(seen.phases)) == (2, 1, 3)


async def test_parallelism_zero_waits(kcr_clock: VirtualClock) -> None:
    # Examples row 16; job-controller row 6.
    manifest: dict[str, Any] = example("work-queue")
    manifest["spec"]["parallelism"] = 0
    async with (
        EmbeddedCluster(clock=kcr_clock, random=Random(0), on_run=lambda *_: RunResult(run_for=5)) as cluster,
        job_controller(cluster, kcr_clock),
    ):
        await create(cluster.client, manifest)
        await kcr_clock.advance(60)
        assert await pods_of(cluster.client, "work-queue") == ()
        assert await ended(cluster.client, "work-queue") is None
        await cluster.client.merge_patch(Job, Key("default", "work-queue"), {"spec": {"parallelism": 2}})
        job = await finished(cluster.client, "work-queue")
    assert job.status.succeeded == 2
