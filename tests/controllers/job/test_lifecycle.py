"""A Job's life, row by row of job-controller §37, on the embedded cluster in virtual time."""

from itertools import pairwise
from typing import Any

import pytest

from kcr.api.batch import Job, UncountedTerminatedPods
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.controllers.job.decisions.pods import TRACKING_FINALIZER, is_tracked
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.harness import (
    conditions,
    counters,
    create,
    ended,
    events_of,
    finished,
    job_controller,
    manifest,
    nothing_left_behind,
    pods_of,
    read,
)  # fmt: skip

pytestmark = pytest.mark.kcr_virtual

FOREVER = {"sim.kcr.dev/run-for": "forever"}
FAILS = {"sim.kcr.dev/exit-code": "1"}


async def test_job_with_one_pod_completes(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Rows 1 and 3.
    async with job_controller(kcr_cluster, kcr_clock):
        await create(kcr_cluster.client, manifest())
        job = await finished(kcr_cluster.client)
        pods = await pods_of(kcr_cluster.client)
    assert conditions(job) == [("SuccessCriteriaMet", "CompletionsReached"), ("Complete", "CompletionsReached")]
    assert counters(job) == (0, 0, 0, 1, 0)
    assert job.status.uncounted_terminated_pods == UncountedTerminatedPods()
    assert job.status.completion_time is not None
    assert [pod.status.phase for pod in pods] == ["Succeeded"]
    assert nothing_left_behind(pods)
    assert pods[0].metadata.generate_name == "pi-"
    assert {reason for reason, _ in await events_of(kcr_cluster.client)} == {"SuccessfulCreate", "Completed"}


async def test_running_pod_is_active_and_ready(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Rows 1 and 2.
    async with job_controller(kcr_cluster, kcr_clock):
        await create(kcr_cluster.client, manifest(annotations=FOREVER))
        await kcr_clock.advance(5)
        assert counters(await read(kcr_cluster.client)) == (1, 1, 0, 0, 0)


async def test_never_more_pods_than_parallelism(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Row 4.
    most = 0
    async with job_controller(kcr_cluster, kcr_clock):
        await create(
            kcr_cluster.client, manifest(parallelism=2, completions=4, annotations={"sim.kcr.dev/run-for": "10s"})
        )
        while not await ended(kcr_cluster.client):
            pods = await pods_of(kcr_cluster.client)
            most = max(most, sum(pod.status.phase in ("", "Pending", "Running") for pod in pods))
            await kcr_clock.advance(0.5)
        assert most == 2
        assert len(await pods_of(kcr_cluster.client)) == 4


@pytest.mark.parametrize(
    ("spec", "pods", "succeeded"),
    [
        pytest.param({"parallelism": 5, "completions": 3}, 3, 3, id="more-parallelism-than-completions"),
        pytest.param({"completions": 0}, 0, 0, id="nothing-to-do"),
        pytest.param({"parallelism": 3}, 3, 3, id="work-queue"),
    ],
)
async def test_job_makes_as_many_pods_as_it_needs(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, spec: dict[str, Any], pods: int, succeeded: int
) -> None:
    # Rows 5, 7 and 19.
    async with job_controller(kcr_cluster, kcr_clock):
        await create(kcr_cluster.client, manifest(annotations={"sim.kcr.dev/run-for": "5s"}, **spec))
        job = await finished(kcr_cluster.client)
        assert len(await pods_of(kcr_cluster.client)) == pods
    assert job.status.succeeded == succeeded


async def test_parallelism_zero_waits_for_a_wish(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Row 6.
    async with job_controller(kcr_cluster, kcr_clock):
        await create(kcr_cluster.client, manifest(parallelism=0, annotations=FOREVER))
        await kcr_clock.advance(5)
        assert counters(await read(kcr_cluster.client)) == (0, 0, 0, 0, 0)
        await kcr_cluster.client.merge_patch(Job, Key("default", "pi"), {"spec": {"parallelism": 2}})
        await kcr_clock.advance(0)
        assert len(await pods_of(kcr_cluster.client)) == 2


async def test_scaled_down_pods_are_no_failures(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Row 11.
    async with job_controller(kcr_cluster, kcr_clock):
        await create(kcr_cluster.client, manifest(parallelism=5, backoffLimit=2, annotations=FOREVER))
        await kcr_clock.advance(5)
        await kcr_cluster.client.merge_patch(Job, Key("default", "pi"), {"spec": {"parallelism": 2}})
        await kcr_clock.advance(60)
        assert counters(await read(kcr_cluster.client)) == (2, 2, 0, 0, 0)
        await kcr_cluster.client.merge_patch(Job, Key("default", "pi"), {"spec": {"parallelism": 4}})
        await kcr_clock.advance(60)
        assert counters(await read(kcr_cluster.client)) == (4, 4, 0, 0, 0)


async def test_replacement_comes_after_the_backoff(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Rows 27 and 28: each replacement in [d, 2d) after the end of the pod before.
    async with job_controller(kcr_cluster, kcr_clock):
        await create(kcr_cluster.client, manifest(annotations={**FAILS, "sim.kcr.dev/run-for": "7s"}))
        await kcr_clock.advance(200)
        pods = sorted(
            await pods_of(kcr_cluster.client), key=lambda pod: pod.metadata.creation_timestamp or kcr_clock.now()
        )
    gaps = []
    for before, after in pairwise(pods):
        end = before.status.container_statuses[0].state.terminated
        assert end is not None
        assert end.finished_at is not None
        assert after.metadata.creation_timestamp is not None
        gaps.append((after.metadata.creation_timestamp - end.finished_at).total_seconds())
    assert len(gaps) == 4
    for gap, wanted in zip(gaps, (10, 20, 40, 80), strict=True):
        assert wanted <= gap <= wanted + 2


async def test_job_fails_beyond_its_backoff_limit(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Rows 31 and 32.
    async with job_controller(kcr_cluster, kcr_clock):
        await create(kcr_cluster.client, manifest(backoffLimit=1, annotations=FAILS))
        job = await finished(kcr_cluster.client, seconds=120)
        pods = await pods_of(kcr_cluster.client)
        events = await events_of(kcr_cluster.client)
    assert conditions(job) == [("FailureTarget", "BackoffLimitExceeded"), ("Failed", "BackoffLimitExceeded")]
    assert counters(job) == (0, 0, 0, 0, 2)
    assert [pod.status.phase for pod in pods] == ["Failed", "Failed"]
    assert nothing_left_behind(pods)
    assert ("BackoffLimitExceeded", "Job has reached the specified backoff limit") in events


async def test_other_pods_are_deleted_when_the_job_fails(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # §17: a pod that still runs when the Job fails is deleted, and counts as failed.
    async with job_controller(kcr_cluster, kcr_clock):
        await create(kcr_cluster.client, manifest(parallelism=2, completions=2, backoffLimit=0, annotations=FOREVER))
        await kcr_clock.advance(5)
        victim = (await pods_of(kcr_cluster.client))[0]
        await kcr_cluster.client.merge_patch(Pod, victim.key, {"status": {"phase": "Failed"}}, subresource="status")
        job = await finished(kcr_cluster.client, seconds=120)
    assert counters(job) == (0, 0, 0, 0, 2)


async def test_deadline_ends_running_pods(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Row 49.
    async with job_controller(kcr_cluster, kcr_clock):
        await create(kcr_cluster.client, manifest(parallelism=2, activeDeadlineSeconds=30, annotations=FOREVER))
        await kcr_clock.advance(29)
        assert counters(await read(kcr_cluster.client)) == (2, 2, 0, 0, 0)
        job = await finished(kcr_cluster.client, seconds=60)
        assert await pods_of(kcr_cluster.client) == ()
    assert conditions(job) == [("FailureTarget", "DeadlineExceeded"), ("Failed", "DeadlineExceeded")]
    assert job.status.conditions[0].message == "Job was active longer than specified deadline"
    assert counters(job) == (0, 0, 0, 0, 2)


async def test_suspended_job_has_no_pods_until_resumed(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Rows 57 to 59.
    async with job_controller(kcr_cluster, kcr_clock):
        await create(kcr_cluster.client, manifest(suspend=True, parallelism=2, completions=4, annotations=FOREVER))
        await kcr_clock.advance(5)
        job = await read(kcr_cluster.client)
        assert conditions(job) == [("Suspended", "JobSuspended")]
        assert job.status.start_time is None
        assert await pods_of(kcr_cluster.client) == ()
        await kcr_cluster.client.merge_patch(Job, job.key, {"spec": {"suspend": False}})
        await kcr_clock.advance(5)
        job = await read(kcr_cluster.client)
        assert counters(job) == (2, 2, 0, 0, 0)
        assert job.status.start_time is not None
        await kcr_cluster.client.merge_patch(Job, job.key, {"spec": {"suspend": True}})
        await kcr_clock.advance(60)
        job = await read(kcr_cluster.client)
        assert counters(job) == (0, 0, 0, 0, 0)
        assert await pods_of(kcr_cluster.client) == ()


async def test_finished_job_is_left_as_it_is(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Row 14.
    async with job_controller(kcr_cluster, kcr_clock):
        await create(kcr_cluster.client, manifest())
        job = await finished(kcr_cluster.client)
        await kcr_clock.advance(5)
        (pod,) = await pods_of(kcr_cluster.client)
        await kcr_cluster.client.delete(Pod, pod.key)
        await kcr_clock.advance(60)
        assert await pods_of(kcr_cluster.client) == ()
        assert await read(kcr_cluster.client) == job


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_pods_go_with_their_job(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, propagation: str) -> None:
    # Row 128: ended pods and running ones alike.
    async with job_controller(kcr_cluster, kcr_clock):
        outcomes = {"sim.kcr.dev/run-for": "forever"}
        await create(kcr_cluster.client, manifest(parallelism=3, completions=6, annotations=outcomes))
        await kcr_clock.advance(5)
        await kcr_cluster.client.delete(Job, Key("default", "pi"), propagation=propagation)
        await kcr_clock.advance(60)
        assert await pods_of(kcr_cluster.client) == ()


async def test_finalizer_that_comes_after_the_end_is_removed(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with job_controller(kcr_cluster, kcr_clock):
        await create(kcr_cluster.client, manifest())
        await finished(kcr_cluster.client)
        (pod,) = await pods_of(kcr_cluster.client)
        finalizers = {"metadata": {"finalizers": [TRACKING_FINALIZER]}}
        assert is_tracked(await kcr_cluster.client.merge_patch(Pod, pod.key, finalizers))
        await kcr_clock.advance(60)
        assert nothing_left_behind(await pods_of(kcr_cluster.client))


async def test_orphaned_pods_stay_without_finalizer(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Row 128, policy Orphan.
    async with job_controller(kcr_cluster, kcr_clock):
        await create(kcr_cluster.client, manifest(parallelism=3, completions=3, annotations=FOREVER))
        await kcr_clock.advance(5)
        await kcr_cluster.client.delete(Job, Key("default", "pi"), propagation="Orphan")
        await kcr_clock.advance(60)
        pods = await pods_of(kcr_cluster.client)
        assert len(pods) == 3
        assert nothing_left_behind(pods)


async def test_pods_are_let_go_that_lost_their_job_unseen(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    # Row 129: the Job goes while no controller runs.
    async with job_controller(kcr_cluster, kcr_clock):
        await create(kcr_cluster.client, manifest(parallelism=3, completions=3, annotations=FOREVER))
        await kcr_clock.advance(5)
    await kcr_cluster.client.delete(Job, Key("default", "pi"), propagation="Background")
    await kcr_clock.advance(60)
    assert len(await pods_of(kcr_cluster.client)) == 3
    async with job_controller(kcr_cluster, kcr_clock):
        await kcr_clock.advance(60)
        assert await pods_of(kcr_cluster.client) == ()


async def test_job_of_the_same_name_inherits_no_delay(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Rows 39 and 152.
    async with job_controller(kcr_cluster, kcr_clock):
        await create(kcr_cluster.client, manifest(annotations=FAILS))
        await kcr_clock.advance(5)
        assert (await read(kcr_cluster.client)).status.failed == 1
        await kcr_cluster.client.delete(Job, Key("default", "pi"), propagation="Background")
        await create(kcr_cluster.client, manifest(annotations=FOREVER))
        await kcr_clock.advance(1)
        assert counters(await read(kcr_cluster.client))[0] == 1


async def test_job_managed_elsewhere_is_not_touched(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Row 131.
    async with job_controller(kcr_cluster, kcr_clock):
        created = await create(kcr_cluster.client, manifest(managedBy="example.com/x"))
        await kcr_clock.advance(60)
        assert await read(kcr_cluster.client) == created


async def test_many_pods_are_told_of_in_one_event(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # job-controller §31, summary.
    async with job_controller(kcr_cluster, kcr_clock):
        await create(kcr_cluster.client, manifest(parallelism=20, completions=20, annotations=FOREVER))
        await kcr_clock.advance(10)
        created = [message for reason, message in await events_of(kcr_cluster.client) if reason == "SuccessfulCreate"]
    assert sum(message.startswith("Created pod: ") for message in created) == 3
    assert sum(message.startswith("Created 17 more pods: ") for message in created) == 1
