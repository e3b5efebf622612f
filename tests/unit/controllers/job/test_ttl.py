"""When a Job's time is up (job-controller §30)."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, Histogram
from structlog.testing import capture_logs

from kcr.api.batch import Job, JobStatus
from kcr.api.meta import Condition, Key
from kcr.controller import Result
from kcr.controllers.job.ttl import (
    LATENCY_BUCKETS,
    DeletionSummary,
    NoFinishTimeError,
    Options,
    TtlReconciler,
    needs_cleanup,
    setup,
    time_left,
)
from kcr.errors import ConfigError, NotFoundError
from kcr.testing import FakeManager, VirtualClock
from tests.kit.builders import NOW, ago, job

KEY = Key("default", "pi")


def ended(seconds_ago: float = 0, ttl: int | None = 100, *, kind: str = "Complete", deleted: bool = False) -> Job:
    condition = Condition(type=kind, status="True", last_transition_time=ago(seconds_ago))
    return job(status=JobStatus(conditions=(condition,)), ttl_seconds_after_finished=ttl, deleted=deleted)


def kept_after_failure(found: Job, text: str) -> Job:
    annotations = {"kcr.dev/ttl-after-failure": text}
    return replace(found, metadata=replace(found.metadata, annotations=annotations))


@pytest.mark.parametrize(
    ("found", "seconds"),
    [
        pytest.param(kept_after_failure(ended(60, kind="Failed"), "1h"), 3540, id="longer"),
        pytest.param(kept_after_failure(ended(60, kind="Failed"), "30s"), -30, id="shorter"),
        pytest.param(kept_after_failure(ended(60, None, kind="Failed"), "1h"), 3540, id="alone"),
        pytest.param(kept_after_failure(ended(60), "1h"), 40, id="complete"),
        pytest.param(kept_after_failure(ended(60, kind="Failed"), "late"), 40, id="unreadable"),
    ],
)
def test_failed_job_may_have_a_ttl_of_its_own(found: Job, seconds: float) -> None:
    assert needs_cleanup(found)
    assert time_left(found, NOW) == timedelta(seconds=seconds)


def test_complete_job_has_no_ttl_after_failure() -> None:
    assert not needs_cleanup(kept_after_failure(ended(60, None), "1h"))


@pytest.mark.parametrize(
    ("found", "needed"),
    [
        pytest.param(ended(), True, id="complete"),
        pytest.param(ended(kind="Failed"), True, id="failed"),
        pytest.param(ended(ttl=0), True, id="no-time-at-all"),
        pytest.param(ended(ttl=None), False, id="no-ttl"),
        pytest.param(ended(kind="Suspended"), False, id="not-ended"),
        pytest.param(ended(kind="FailureTarget"), False, id="about-to-fail"),
        pytest.param(ended(deleted=True), False, id="being-deleted"),
    ],
)
def test_only_an_ended_job_with_a_ttl_goes(found: Job, needed: bool) -> None:  # §30.1, §30.2
    assert needs_cleanup(found) is needed


@pytest.mark.parametrize(
    ("found", "left"),
    [
        pytest.param(ended(0), 100, id="just-ended"),
        pytest.param(ended(99), 1, id="nearly"),
        pytest.param(ended(100), 0, id="now"),
        pytest.param(ended(130), -30, id="late"),
        pytest.param(ended(0, 0), 0, id="at-once"),
        pytest.param(ended(-3600, 10), 3610, id="ends-in-the-future"),
        pytest.param(ended(0, 2**31 - 1), 2**31 - 1, id="the-longest-there-is"),
    ],
)
def test_time_runs_from_the_end(found: Job, left: int) -> None:  # §30.4
    assert time_left(found, NOW) == timedelta(seconds=left)


def test_first_true_condition_names_the_end() -> None:  # §30.4
    conditions = (
        Condition(type="SuccessCriteriaMet", status="True", last_transition_time=ago(90)),
        Condition(type="Failed", status="False", last_transition_time=ago(80)),
        Condition(type="Complete", status="True", last_transition_time=ago(50)),
        Condition(type="Failed", status="True", last_transition_time=ago(20)),
    )
    found = job(status=JobStatus(conditions=conditions), ttl_seconds_after_finished=100)
    assert time_left(found, NOW) == timedelta(seconds=50)


def test_completion_time_means_nothing() -> None:  # §30
    condition = Condition(type="Complete", status="True", last_transition_time=ago(10))
    found = job(status=JobStatus(conditions=(condition,), completion_time=ago(99)), ttl_seconds_after_finished=100)
    assert time_left(found, NOW) == timedelta(seconds=90)


@pytest.mark.parametrize("moment", [None, datetime(1, 1, 1, tzinfo=UTC)], ids=["missing", "zero"])
def test_end_without_a_time_is_an_error(moment: datetime | None) -> None:  # §30.4
    conditions = (
        Condition(type="Failed", status="True", last_transition_time=moment),
        Condition(type="Complete", status="True", last_transition_time=NOW),
    )
    found = job(status=JobStatus(conditions=conditions), ttl_seconds_after_finished=100)
    with pytest.raises(NoFinishTimeError, match="unable to find the time when the Job default/pi finished"):
        time_left(found, NOW)


@pytest.mark.parametrize("found", [ended(ttl=None), ended(deleted=True), job(ttl_seconds_after_finished=1)])
def test_job_that_stays_has_no_time_left(found: Job) -> None:  # §30, the error of a wrong call
    with pytest.raises(ValueError, match="job default/pi should not be cleaned up"):
        time_left(found, NOW)


def test_buckets_are_those_of_the_field() -> None:  # §32
    assert LATENCY_BUCKETS[:3] == (0.1, 0.2, 0.4)
    assert LATENCY_BUCKETS[-1] == pytest.approx(0.1 * 2**13)


def test_cluster_of_others_is_refused() -> None:
    manager = FakeManager()
    with pytest.raises(ConfigError, match=r"controller 'ttl' cannot share .*-ttl-after-finished-controller"):
        setup(manager, Options())
    assert manager.selections == ()


def reconciler(manager: FakeManager) -> TtlReconciler:
    latency = Histogram("latency", "Seconds.", buckets=LATENCY_BUCKETS, registry=CollectorRegistry())
    return TtlReconciler(manager.client, manager.store(Job), manager.clock, latency, DeletionSummary())


@pytest.mark.kcr_virtual
async def test_job_that_is_gone_needs_nothing(kcr_clock: VirtualClock) -> None:  # §30.3, §30.5
    manager = FakeManager(clock=kcr_clock)
    assert await reconciler(manager).reconcile(KEY) == Result()
    # The store still shows it, the server no longer.
    manager.informer(Job).add(ended(86_400 * 365))
    assert await reconciler(manager).reconcile(KEY) == Result()
    with pytest.raises(NotFoundError):
        await manager.client.get(Job, Key("default", "pi"))


@pytest.mark.kcr_virtual
async def test_future_end_is_warned_of_and_waited_for(kcr_clock: VirtualClock) -> None:  # row 148
    manager = FakeManager(clock=kcr_clock)
    ahead = (NOW - kcr_clock.now()).total_seconds()
    manager.informer(Job).add(ended(-3600, 10))
    with capture_logs() as logs:
        result = await reconciler(manager).reconcile(KEY)
    assert result.requeue_after == timedelta(seconds=ahead + 3610)
    assert [(line["log_level"], line["seconds_ahead"]) for line in logs] == [("warning", ahead + 3600)]
