"""What is counted of Jobs and their pods (job-controller §32)."""

import asyncio

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from kcr.api.batch import Job, JobStatus
from kcr.api.core import Pod
from kcr.api.meta import Condition
from kcr.controllers.job.decisions.decide import decide
from kcr.controllers.job.decisions.plan import Outcome
from kcr.controllers.job.metrics import (
    SYNC_BUCKETS,
    EndedPods,
    ExternalJobs,
    JobMetrics,
    action_of,
    creation_reason,
    ended_indexes,
    ended_pods,
)
from kcr.testing import VirtualClock
from tests.kit.builders import NOW, ago, indexed, job, pod, snapshot
from tests.kit.clocks import FixedClock


class Counted:
    """Metrics in a registry of their own, and what they say."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.metrics = JobMetrics(self._registry)

    def of(self, name: str, **labels: str) -> float | None:
        return self._registry.get_sample_value(f"job_controller_{name}", labels)


def over(found: Job, **status: object) -> Job:
    return replace(found, status=replace(found.status, **status))


@pytest.mark.parametrize(
    ("found", "before", "counted"),
    [
        pytest.param(over(job(completions=9), succeeded=5, failed=2), JobStatus(succeeded=3), (2, 2), id="plain"),
        pytest.param(over(job()), JobStatus(), (0, 0), id="nothing"),
        pytest.param(
            over(indexed(9), completed_indexes="0-3,7", succeeded=5, failed=1),
            JobStatus(completed_indexes="0,1", succeeded=2),
            (3, 1),
            id="indexed",
        ),
        pytest.param(
            over(indexed(3), completed_indexes="0-2", succeeded=3),
            JobStatus(completed_indexes="0,1,7,8", succeeded=4),
            (1, 0),
            id="fewer-indexes-than-before",
        ),
    ],
)
def test_pods_are_counted_by_what_was_written(found: Job, before: JobStatus, counted: tuple[int, int]) -> None:
    assert ended_pods(before, found) == counted


@pytest.mark.parametrize(
    ("failed", "before", "counted"),
    [
        pytest.param("0,2", None, 2, id="first"),
        pytest.param("0-3", "1,2", 2, id="more"),
        pytest.param("0-3,7", "0-3", 0, id="beyond-the-last"),
        pytest.param("0", "0-1", 0, id="never-fewer"),
    ],
)
def test_indexes_fail_once(failed: str, before: str | None, counted: int) -> None:
    found = over(indexed(5, backoff_limit_per_index=1), failed_indexes=failed)
    assert ended_indexes(JobStatus(failed_indexes=before), found) == (0, counted)


def test_indexes_are_told_by_the_limit_they_have() -> None:
    counted = Counted()
    counted.metrics.recorded(JobStatus(), over(indexed(5), completed_indexes="0,1"))
    counted.metrics.recorded(
        JobStatus(), over(indexed(5, backoff_limit_per_index=1), completed_indexes="", failed_indexes="3")
    )
    # Touched with 0 as well.
    assert counted.of("job_finished_indexes_total", status="succeeded", backoffLimit="perIndex") == 0
    assert counted.of("job_finished_indexes_total", status="failed", backoffLimit="perIndex") == 1
    assert counted.of("job_finished_indexes_total", status="succeeded", backoffLimit="global") == 2
    assert counted.of("job_finished_indexes_total", status="failed", backoffLimit="global") is None


def test_indexes_are_those_of_indexed_jobs_only() -> None:
    counted = Counted()
    counted.metrics.recorded(JobStatus(), over(job(), succeeded=1))
    assert counted.of("job_pods_finished_total", completion_mode="NonIndexed", result="succeeded") == 1
    assert counted.of("job_finished_indexes_total", status="succeeded", backoffLimit="global") is None


@pytest.mark.parametrize(
    ("policy", "failed", "terminating", "reason"),
    [
        pytest.param(None, 0, 0, "new", id="first"),
        pytest.param("Failed", 0, 2, "recreate_terminating_or_failed", id="going-under-failed"),
        pytest.param("Failed", 1, 2, "recreate_failed", id="failed-under-failed"),
        pytest.param("TerminatingOrFailed", 1, 0, "recreate_terminating_or_failed", id="failed"),
        pytest.param(None, 0, 1, "recreate_terminating_or_failed", id="going"),
    ],
)
def test_creation_has_a_reason(policy: str | None, failed: int, terminating: int, reason: str) -> None:
    assert creation_reason(job(pod_replacement_policy=policy), failed, terminating) == reason


def test_failed_creation_is_no_success() -> None:  # §13.3, upstream's defect
    counted = Counted()
    counted.metrics.created("new", Outcome(created=3, refused=2, unconfirmed=1))
    assert counted.of("job_pods_creation_total", reason="new", status="succeeded") == 2
    assert counted.of("job_pods_creation_total", reason="new", status="failed") == 2
    counted.metrics.created("recreate_failed", Outcome())
    assert counted.of("job_pods_creation_total", reason="recreate_failed", status="succeeded") is None


FAILED = pod("failed", "Failed", finished=ago(1))
RUNNING, TWO = pod("one"), (pod("one"), pod("two"))


@pytest.mark.parametrize(
    ("found", "pods", "met", "action"),
    [
        pytest.param(job(), (), True, "pods_created", id="creates"),
        pytest.param(job(), (FAILED,), True, "pods_created", id="creates-later"),
        pytest.param(job(), TWO, True, "pods_deleted", id="deletes"),
        pytest.param(job(suspend=True), TWO, True, "pods_deleted", id="suspends"),
        pytest.param(job(suspend=True), (), True, "pods_deleted", id="is-suspended"),
        pytest.param(job(), (RUNNING,), True, "tracking", id="has-what-it-needs"),
        pytest.param(job(), (), False, "reconciling", id="waits-for-its-writes"),
        pytest.param(job(deleted=True), (RUNNING,), True, "reconciling", id="is-going"),
        pytest.param(job(backoff_limit=0), (RUNNING, FAILED), True, "reconciling", id="ends"),
    ],
)
def test_pass_is_named_by_what_it_does(found: Job, pods: tuple[Pod, ...], met: bool, action: str) -> None:
    assert action_of(found, decide(snapshot(found, *pods, expectations_met=met))) == action


@pytest.mark.kcr_virtual
async def test_pass_is_counted_by_its_end(kcr_clock: VirtualClock) -> None:
    counted = Counted()
    with counted.metrics.sync(job()) as sync:
        sync.action = "tracking"
        await kcr_clock.advance(1)
    with pytest.raises(OSError), counted.metrics.sync(indexed(1)):
        raise OSError
    with pytest.raises(asyncio.CancelledError), counted.metrics.sync(indexed(1)):
        raise asyncio.CancelledError
    well = {"completion_mode": "NonIndexed", "result": "success", "action": "tracking"}
    badly = {"completion_mode": "Indexed", "result": "error", "action": "reconciling"}
    assert counted.of("job_syncs_total", **well) == counted.of("job_syncs_total", **badly) == 1
    assert counted.of("job_sync_duration_seconds_sum", **well) == 1
    assert counted.of("job_syncs_total", **badly | {"result": "success"}) is None


def test_buckets_are_those_of_the_field() -> None:
    assert SYNC_BUCKETS[:3] == (0.004, 0.008, 0.016)
    assert (len(SYNC_BUCKETS), SYNC_BUCKETS[-1]) == (15, 0.004 * 2**14)


@pytest.mark.parametrize(
    ("kind", "reason", "result"), [("Complete", "SuccessPolicy", "succeeded"), ("Failed", "DeadlineExceeded", "failed")]
)
def test_job_ends_with_a_reason(kind: str, reason: str, result: str) -> None:
    counted = Counted()
    other = Condition(type="Complete" if kind == "Failed" else "Failed", status="False", reason="Other")
    end = Condition(type=kind, status="True", reason=reason)
    counted.metrics.finished(over(job(), conditions=(other, end)))
    labels = {"completion_mode": "NonIndexed", "result": result, "reason": reason}
    assert counted.of("jobs_finished_total", **labels) == 1


ENDED = pod("ended", "Succeeded", finished=ago(30))
LET_GO = pod("ended", "Succeeded", tracked=False)


def test_ended_pods_come_and_go_with_their_finalizer() -> None:  # §4.2 to §4.4
    counted = Counted()
    events = EndedPods(counted.metrics, CollectorRegistry(), FixedClock(NOW))

    def numbers() -> tuple[float | None, float | None]:
        name = "terminated_pods_tracking_finalizer_total"
        return counted.of(name, event="add"), counted.of(name, event="delete")

    events.on_add(RUNNING, False)
    events.on_add(LET_GO, False)
    events.on_update(RUNNING, RUNNING)
    assert numbers() == (None, None)
    events.on_update(RUNNING, ENDED)
    events.on_update(ENDED, ENDED)
    assert numbers() == (1, None)
    events.on_update(ENDED, LET_GO)
    events.on_delete(LET_GO, False)
    assert numbers() == (1, 1)
    events.on_add(ENDED, True)
    events.on_delete(ENDED, False)
    assert numbers() == (2, 2)
    # The informer missed its end: it may have lost its finalizer before.
    events.on_delete(ENDED, True)
    assert numbers() == (2, 2)


def test_oldest_pod_with_its_finalizer_is_the_one_that_ended_first() -> None:
    registry = CollectorRegistry()
    events = EndedPods(Counted().metrics, registry, FixedClock(NOW))
    older = pod("older", "Failed", finished=ago(90))

    def oldest() -> float | None:
        return registry.get_sample_value("kcr_job_oldest_uncounted_pod_seconds")

    assert oldest() == 0
    for one in (ENDED, older):
        events.on_add(one, True)
    assert oldest() == 90
    events.on_update(older, pod("older", "Failed", finished=ago(90), tracked=False))
    assert oldest() == 30
    events.on_delete(ENDED, True)
    assert oldest() == 0


def test_jobs_of_a_third_controller_are_counted() -> None:  # §4.1, §27
    counted = Counted()
    events = ExternalJobs(counted.metrics, ours=("a", "b"))
    for name in (None, "a", "b", "example.com/x", "example.com/x"):
        events.on_add(job(managed_by=name), False)
    events.on_update(job(managed_by="example.com/x"), job(managed_by="example.com/x", deleted=True))
    assert counted.of("jobs_by_external_controller_total", controller_name="example.com/x") == 2
    assert counted.of("jobs_by_external_controller_total", controller_name="a") is None


def test_policy_and_late_stores_are_counted() -> None:
    counted = Counted()
    counted.metrics.handled("Count").inc()
    counted.metrics.stale("batch", "jobs").inc()
    counted.metrics.stale("", "pods").inc()
    assert counted.of("pod_failures_handled_by_failure_policy_total", action="Count") == 1
    assert counted.of("stale_sync_skips_total", group="batch", resource="jobs") == 1
    assert counted.of("stale_sync_skips_total", group="", resource="pods") == 1
