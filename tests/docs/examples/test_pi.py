"""`pi.yaml` and its relatives (seeds 001 and 003)."""

from random import Random

import pytest

from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import FOREVER, RunResult
from tests.kit.harness import (
    conditions,
    counters,
    create,
    events_of,
    example,
    finished,
    job_controller,
    nothing_left_behind,
    pods_of,
)
from tests.kit.kubectl_watch import statuses_of_pods
from tests.kit.observers import observing_pods

pytestmark = pytest.mark.kcr_virtual


def runs(seconds: float, exit_code: int = 0) -> RunResult:
    return RunResult(exit_code=exit_code, run_for=seconds)


async def test_pi_completes_and_keeps_its_pod(kcr_clock: VirtualClock) -> None:
    # Examples row 1; job-controller rows 1 to 3.
    async with (
        EmbeddedCluster(clock=kcr_clock, random=Random(0), on_run=lambda *_: runs(5)) as cluster,
        statuses_of_pods(cluster) as course,
        job_controller(cluster, kcr_clock),
    ):
        await create(cluster.client, example("pi"))
        job = await finished(cluster.client)
        await kcr_clock.advance(600)
        pods = await pods_of(cluster.client)
    assert conditions(job)[-1] == ("Complete", "CompletionsReached")
    assert len(pods) == 1
    assert nothing_left_behind(pods)
    assert course[-2:] == ["Running 0", "Completed 0"]


async def test_at_most_two_pods_run_until_four_succeeded(kcr_clock: VirtualClock) -> None:
    # Examples row 2; job-controller row 4.
    async with (
        EmbeddedCluster(clock=kcr_clock, random=Random(0), on_run=lambda *_: runs(5)) as cluster,
        observing_pods(cluster) as seen,
        job_controller(cluster, kcr_clock),
    ):
        await create(cluster.client, example("pi-parallel"))
        job = await finished(cluster.client)
        pods = await pods_of(cluster.client)
    assert seen.most_active == 2
    assert len(pods) == len(seen.phases) == 4
    assert counters(job) == (0, 0, 0, 4, 0)


async def test_deadline_ends_a_job_that_never_ends(kcr_clock: VirtualClock) -> None:
    # Examples row 3; job-controller row 49.
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), on_run=lambda *_: runs(FOREVER)) as cluster:
        async with observing_pods(cluster) as seen, job_controller(cluster, kcr_clock):
            await create(cluster.client, example("pi-with-timeout"))
            began = kcr_clock.now()
            job = await finished(cluster.client, "pi-with-timeout")
            took = (kcr_clock.now() - began).total_seconds()
        assert len(seen.phases) == 1
    assert conditions(job) == [("FailureTarget", "DeadlineExceeded"), ("Failed", "DeadlineExceeded")]
    # The pod gets its grace period after the deadline.
    assert 100 <= took <= 135


async def test_deadline_ends_a_job_with_retries_left(kcr_clock: VirtualClock) -> None:
    # Examples row 3; job-controller row 50: fewer than six failures have happened by then.
    async with (
        EmbeddedCluster(clock=kcr_clock, random=Random(0), on_run=lambda *_: runs(1, 1)) as cluster,
        job_controller(cluster, kcr_clock),
    ):
        await create(cluster.client, example("pi-with-timeout"))
        job = await finished(cluster.client, "pi-with-timeout")
        before = len(await pods_of(cluster.client, "pi-with-timeout"))
        await kcr_clock.advance(1000)
        assert len(await pods_of(cluster.client, "pi-with-timeout")) == before
    assert conditions(job)[-1] == ("Failed", "DeadlineExceeded")
    assert job.status.failed == before < 6


async def test_single_retry_is_cut_short(kcr_clock: VirtualClock) -> None:
    # Examples row 10, the failing variant; job-controller row 43.
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), on_run=lambda *_: runs(5, 1)) as cluster:
        async with observing_pods(cluster) as seen, job_controller(cluster, kcr_clock):
            await create(cluster.client, example("hello-job"))
            job = await finished(cluster.client, "job-example")
            events = await events_of(cluster.client, "job-example")
        assert len(seen.phases) == 1
    assert conditions(job)[-1] == ("Failed", "BackoffLimitExceeded")
    assert job.status.failed == 1
    assert "SuccessfulDelete" in {reason for reason, _ in events}
