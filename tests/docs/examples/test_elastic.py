"""`elastic.yaml`: an Indexed Job that grows and shrinks (seed 001)."""

from random import Random

import pytest

from kcr.api.batch import Job
from kcr.api.meta import Key
from kcr.errors import InvalidError
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from tests.kit.harness import create, example, finished, job_controller, read

pytestmark = pytest.mark.kcr_virtual

KEY = Key("default", "elastic")


async def test_both_counts_change_together_or_not_at_all(kcr_clock: VirtualClock) -> None:
    # Examples row 18; job-controller rows 80 to 83; batch-api row 15.67.
    async with (
        EmbeddedCluster(clock=kcr_clock, random=Random(0), on_run=lambda *_: RunResult(run_for=30)) as cluster,
        job_controller(cluster, kcr_clock),
    ):

        async def scale(**counts: int) -> int:
            await cluster.client.strategic_patch(Job, KEY, {"spec": counts})
            await kcr_clock.advance(5)
            return (await read(cluster.client, "elastic")).status.active

        await create(cluster.client, example("elastic"))
        with pytest.raises(InvalidError):
            await scale(completions=4)
        assert await scale(completions=5, parallelism=5) == 5
        assert await scale(completions=2, parallelism=2) == 2
        assert await scale(completions=4, parallelism=4) == 4
        job = await finished(cluster.client, "elastic")
    assert (job.status.completed_indexes, job.status.succeeded, job.status.failed) == ("0-3", 4, 0)


async def test_success_beyond_the_end_is_forgotten(kcr_clock: VirtualClock) -> None:
    # Examples row 18; job-controller rows 82 and 83.
    ends = iter([RunResult(run_for=60), RunResult(run_for=60), RunResult(run_for=5)])
    async with (
        EmbeddedCluster(
            clock=kcr_clock, random=Random(0), on_run=lambda *_: next(ends, RunResult(run_for=5))
        ) as cluster,
        job_controller(cluster, kcr_clock),
    ):
        await create(cluster.client, example("elastic"))
        await kcr_clock.advance(10)
        before = (await read(cluster.client, "elastic")).status
        assert (before.completed_indexes, before.succeeded) == ("2", 1)
        for count in (2, 3):
            patch = {"spec": {"completions": count, "parallelism": count}}
            await cluster.client.strategic_patch(Job, KEY, patch)
            await kcr_clock.advance(2)
            assert (await read(cluster.client, "elastic")).status.succeeded == 0
        job = await finished(cluster.client, "elastic")
    assert (job.status.completed_indexes, job.status.succeeded) == ("0-2", 3)
