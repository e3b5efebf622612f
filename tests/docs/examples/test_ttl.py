"""`pi-with-ttl.yaml` (seed 001)."""

from datetime import timedelta
from random import Random

import pytest

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from tests.kit.harness import conditions, create, example, finished, job_controller, pods_of, ttl_controller
from tests.kit.observers import DeletionObserver

pytestmark = pytest.mark.kcr_virtual

NAME = "pi-with-ttl"


async def test_finished_job_goes_after_its_ttl(kcr_clock: VirtualClock) -> None:
    # Examples row 4; job-controller rows 145 and 146.
    async with (
        EmbeddedCluster(clock=kcr_clock, random=Random(0), on_run=lambda *_: RunResult(run_for=5)) as cluster,
        job_controller(cluster, kcr_clock) as jobs,
        ttl_controller(cluster, kcr_clock),
    ):
        deletions = DeletionObserver()
        jobs.informer(Job).add_handler(deletions)
        jobs.informer(Pod).add_handler(deletions)
        await create(cluster.client, example(NAME))
        job = await finished(cluster.client, NAME)
        assert conditions(job)[-1] == ("Complete", "CompletionsReached")
        assert job.status.completion_time is not None
        end = job.status.completion_time + timedelta(seconds=100)
        await kcr_clock.advance((end - kcr_clock.now()).total_seconds() - 1)
        assert len(await pods_of(cluster.client, NAME)) == 1
        assert deletions.gone == []
        await kcr_clock.advance(2)
        assert await cluster.client.list(Job, "default") == ()
        assert [kind for _, kind in sorted(deletions.gone)] == ["Pod", "Job"]
