from kcr.api.batch import JobStatus
from kcr.api.conditions import find_condition, is_condition_true
from kcr.controllers.job.decisions.lifecycle import with_suspension
from tests.kit.builders import NOW, ago, job


def test_suspension_is_reported_and_stops_the_clock() -> None:
    # job-controller §25, row 59.
    suspended = job(suspend=True)
    status = with_suspension(suspended, suspended.status, NOW)
    condition = find_condition(status.conditions, "Suspended")
    assert condition is not None
    assert (condition.status, condition.reason, condition.message) == ("True", "JobSuspended", "Job suspended")
    assert status.start_time is None
    assert with_suspension(suspended, status, NOW) is status


def test_resumed_job_starts_anew() -> None:
    # Row 58.
    was = with_suspension(job(suspend=True), JobStatus(start_time=ago(500)), NOW)
    status = with_suspension(job(suspend=False), was, NOW)
    assert not is_condition_true(status.conditions, "Suspended")
    assert status.start_time == NOW


def test_job_never_suspended_has_no_such_condition() -> None:
    # Row 60.
    one = job()
    assert with_suspension(one, one.status, NOW) is one.status
