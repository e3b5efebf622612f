"""What is shown of a Job."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from kcr.api.batch import Job, JobSpec, JobStatus
from kcr.api.meta import Condition, Key, ObjectMeta
from kcr.cli.display import duration, line_of, shown_name
from kcr.controllers.job.commands.job_progress import JobView, view_of

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
METADATA = ObjectMeta(name="pi", namespace="default")


def condition(kind: str, reason: str = "", message: str = "") -> Condition:
    return Condition(type=kind, status="True", reason=reason, message=message, last_transition_time=NOON)


def view(**fields: Any) -> JobView:
    base = JobView(Key("default", "pi"), 4, 0, 0, 0, 0, "Running", "", None, None)
    return replace(base, **fields)


def test_running_job_shows_its_counters() -> None:
    job = Job(metadata=METADATA, spec=JobSpec(completions=4, parallelism=2), status=JobStatus(active=2, ready=1))
    assert line_of(view_of(job), NOON) == "job pi: Running: 0/4 succeeded, 2 active"


def test_failed_job_says_why() -> None:
    status = JobStatus(
        failed=4,
        conditions=(
            condition("FailureTarget", "BackoffLimitExceeded"),
            condition("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"),
        ),
    )
    shown = view_of(Job(metadata=METADATA, spec=JobSpec(completions=1), status=status))
    assert shown.has_ended
    assert shown.ended == NOON
    assert line_of(shown, NOON) == (
        "job pi: Failed: 0/1 succeeded, 4 failed: BackoffLimitExceeded: Job has reached the specified backoff limit"
    )


def test_ended_job_says_how_long_it_took() -> None:
    ended = view(state="Complete", succeeded=4, started=NOON, ended=NOON + timedelta(seconds=125))
    assert line_of(ended, NOON) == "job pi: Complete in 2m5s: 4/4 succeeded"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({}, {"active": 1}, id="first-pod"),
        pytest.param({"active": 2}, {"active": 2, "failed": 1}, id="failure"),
        pytest.param({"succeeded": 3, "active": 1}, {"succeeded": 4}, id="success"),
        pytest.param({"succeeded": 4}, {"succeeded": 4, "state": "Complete"}, id="end"),
        pytest.param({"active": 2}, {"active": 2, "state": "FailureTarget"}, id="end-that-waits-for-pods"),
    ],
)
def test_change_that_matters_is_news(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert view(**after).news not in ((), view(**before).news)


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(view(), id="nothing-has-happened"),
        pytest.param(view(succeeded=4, state="SuccessCriteriaMet"), id="end-comes-at-once"),
    ],
)
def test_state_of_a_moment_is_no_news(shown: JobView) -> None:
    assert shown.news == ()


def test_pod_that_becomes_ready_is_no_news() -> None:
    assert view(active=2, ready=1).news == view(active=2, ready=2).news


def test_interim_condition_is_no_end() -> None:
    status = JobStatus(conditions=(condition("SuccessCriteriaMet"),))
    assert not view_of(Job(metadata=METADATA, status=status)).has_ended


def test_condition_that_is_false_is_not_shown() -> None:
    status = JobStatus(conditions=(Condition(type="Suspended", status="False"),))
    assert view_of(Job(metadata=METADATA, status=status)).state == "Running"


def test_work_queue_has_no_goal() -> None:
    assert line_of(view(wanted=None, succeeded=1), NOON) == "job pi: Running: 1 succeeded"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        pytest.param(0, "0s", id="at-once"),
        pytest.param(119, "119s", id="below-two-minutes"),
        pytest.param(125, "2m5s", id="minutes"),
        pytest.param(180, "3m", id="whole-minutes"),
        pytest.param(12_000, "3h20m", id="hours"),
    ],
)
def test_duration_reads_as_kubectl_writes_it(seconds: int, text: str) -> None:
    assert duration(view(started=NOON), NOON + timedelta(seconds=seconds)) == text


def test_duration_stops_with_the_job() -> None:
    assert duration(view(started=NOON, ended=NOON + timedelta(seconds=3)), NOON + timedelta(hours=1)) == "3s"


def test_duration_is_empty_before_the_start() -> None:
    assert duration(view(), NOON) == ""


def test_default_namespace_goes_without_saying() -> None:
    assert (shown_name(Key("default", "pi")), shown_name(Key("math", "pi"))) == ("pi", "math/pi")
