"""The article on retries (seed 004): `retry-onfailure.yaml` and `retry-never.yaml`, runs of 20 seconds each."""

from random import Random

import pytest

from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from tests.kit.harness import conditions, counters, create, events_of, example, finished, job_controller, pods_of
from tests.kit.kubectl_watch import statuses_of_pods
from tests.kit.observers import observing_pods

pytestmark = pytest.mark.kcr_virtual

JOB = "job-pod-failure-policy-example"
RUN = 20
# Everything happens at once but for what waits on purpose; status changes are batched for a second at most.
SLACK = 2


def always_fails(pod: object, container: str, attempt: int) -> RunResult:
    return RunResult(exit_code=1, run_for=RUN, logs="Hello world!\n", last_logs="completed\n")


async def test_fourth_run_is_terminated_before_it_completes(kcr_clock: VirtualClock) -> None:
    # job-controller §17 and row 42; examples row 11.
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), on_run=always_fails) as cluster:
        async with (
            statuses_of_pods(cluster) as course,
            observing_pods(cluster) as seen,
            job_controller(cluster, kcr_clock),
        ):
            job = await create(cluster.client, example("retry-onfailure"))
            began = kcr_clock.now()
            job = await finished(cluster.client, JOB)
            took = (kcr_clock.now() - began).total_seconds()
            assert await pods_of(cluster.client, JOB) == ()
        assert len(seen.phases) == 1
    assert 3 * RUN + 30 <= took <= 3 * RUN + 30 + SLACK
    assert conditions(job) == [("FailureTarget", "BackoffLimitExceeded"), ("Failed", "BackoffLimitExceeded")]
    assert counters(job) == (0, 0, 0, 0, 1)
    wanted = [
        "Running 0", "Error 0", "Running 1", "Error 1", "CrashLoopBackOff 1", "Running 2", "Error 2",
        "CrashLoopBackOff 2", "Running 3", "Terminating 3",
    ]  # fmt: skip
    course = [entry for entry in course if not entry.startswith(("Pending", "ContainerCreating"))]
    assert course[: len(wanted)] == wanted


async def test_all_four_pods_complete_and_stay(kcr_clock: VirtualClock) -> None:
    # job-controller §17 and row 33; examples row 12.
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), on_run=always_fails) as cluster:
        async with observing_pods(cluster) as seen, job_controller(cluster, kcr_clock):
            await create(cluster.client, example("retry-never"))
            began = kcr_clock.now()
            job = await finished(cluster.client, JOB)
            took = (kcr_clock.now() - began).total_seconds()
            pods = await pods_of(cluster.client, JOB)
            await kcr_clock.advance(1000)
            assert len(await pods_of(cluster.client, JOB)) == 4
            events = await events_of(cluster.client, JOB)
        assert seen.most_active == 1
    assert 4 * RUN + 70 <= took <= 4 * RUN + 70 + 2 * SLACK
    assert conditions(job) == [("FailureTarget", "BackoffLimitExceeded"), ("Failed", "BackoffLimitExceeded")]
    assert counters(job) == (0, 0, 0, 0, 4)
    assert [pod.status.phase for pod in pods] == ["Failed"] * 4
    ends = [pod.status.container_statuses[0].state.terminated for pod in pods]
    assert [end.reason for end in ends if end is not None] == ["Error"] * 4
    assert ("BackoffLimitExceeded", "Job has reached the specified backoff limit") in events
