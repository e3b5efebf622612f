from kcr.api.batch import JobStatus
from kcr.api.conditions import find, is_true
from kcr.controllers.job.suspend import reported
from tests.kit.builders import NOW, ago, job


def test_suspension_is_reported_and_stops_the_clock() -> None:
    # job-controller §25, row 59.
    suspended = job(suspend=True)
    status = reported(suspended, suspended.status, NOW)
    condition = find(status.conditions, "Suspended")
    assert condition is not None
    assert (condition.status, condition.reason, condition.message) == ("True", "JobSuspended", "Job suspended")
    assert status.start_time is None
    assert reported(suspended, status, NOW) is status


def test_resumed_job_starts_anew() -> None:
    # Row 58.
    was = reported(job(suspend=True), JobStatus(start_time=ago(500)), NOW)
    status = reported(job(suspend=False), was, NOW)
    assert not is_true(status.conditions, "Suspended")
    assert status.start_time == NOW


def test_job_never_suspended_has_no_such_condition() -> None:
    # Row 60.
    one = job()
    assert reported(one, one.status, NOW) is one.status
