from datetime import UTC, datetime

import pytest

from kcr.api.batch import CronJob, Job
from kcr.controllers.cronjob.decisions.plan import Announcement, Facts
from kcr.controllers.cronjob.decisions.status import drop_ended, without
from tests.kit.cronjob_builders import cron, job, listed
from tests.kit.cronjob_harness import at

TEN = at("10:00:00")


def facts(cron: CronJob, *jobs: Job, unexpected: tuple[Job, ...] = (), missing: frozenset[str] = frozenset()) -> Facts:
    return Facts(cron=cron, jobs=jobs, unexpected=unexpected, missing=missing, local=UTC, now=TEN)


@pytest.mark.parametrize("end", ["Complete", "Failed"])
def test_ended_job_leaves_the_list_and_is_told(end: str) -> None:
    ended = job(end=end)
    status, told = drop_ended(facts(cron(active=[ended, job("hello-b")]), ended, job("hello-b")))
    assert listed(status) == ["hello-b"]
    assert told == (Announcement("Normal", "SawCompletedJob", f"Saw completed job: hello-a, condition: {end}"),)


@pytest.mark.parametrize("end", ["", "Suspended", "FailureTarget", "SuccessCriteriaMet"])
def test_job_that_has_not_ended_stays_listed(end: str) -> None:
    # Row 54: a suspended Job is one of them.
    going = job(end=end)
    seen = facts(cron(active=[going]), going)
    assert drop_ended(seen) == (seen.cron.status, ())


def test_missing_job_leaves_the_list_and_is_told() -> None:
    # Row 31.
    status, told = drop_ended(facts(cron(active=[job()]), missing=frozenset({"u-hello-a"})))
    assert listed(status) == []
    assert told == (Announcement("Normal", "MissingJob", "Active job went missing: hello-a"),)


def test_listed_job_that_is_only_unseen_stays() -> None:
    # Row 32.
    seen = facts(cron(active=[job()]))
    assert drop_ended(seen) == (seen.cron.status, ())


def test_unexpected_job_is_told_and_not_adopted() -> None:
    # Row 34.
    stray = job("stray")
    seen = facts(cron(), stray, unexpected=(stray,))
    status, told = drop_ended(seen)
    assert status is seen.cron.status
    message = "Saw a job that the controller did not create or forgot: stray"
    assert told == (Announcement("Warning", "UnexpectedJob", message),)


@pytest.mark.parametrize(
    ("last", "moments", "expected"),
    [
        pytest.param(None, ["07:00:00"], "07:00:00", id="the-first"),
        pytest.param("08:00:00", ["07:00:00", "09:00:00"], "09:00:00", id="53-a-later-one"),
        pytest.param("08:00:00", ["07:00:00"], "08:00:00", id="an-earlier-one"),
        pytest.param("08:00:00", ["08:00:00"], "08:00:00", id="the-same"),
    ],
)
def test_last_success_is_the_latest_completion(last: str | None, moments: list[str], expected: str) -> None:
    # It does not matter whether the Jobs are listed.
    jobs = [job(f"j{moment}", end="Complete", completed=at(moment)) for moment in moments]
    status, told = drop_ended(facts(cron(succeeded=(last and at(last)) or None), *jobs))
    assert (status.last_successful_time, told) == (at(expected), ())


def test_success_without_a_time_changes_nothing() -> None:
    # Q8: upstream writes the status again and again.
    seen = facts(cron(), job(end="Complete"))
    assert drop_ended(seen)[0] is seen.cron.status


def test_failure_is_no_success() -> None:
    completed: datetime = at("09:00:00")
    assert drop_ended(facts(cron(), job(end="Failed", completed=completed)))[0].last_successful_time is None


def test_status_without_nobody_is_the_same_status() -> None:
    status = cron(active=[job()]).status
    assert without(status, {"u-other"}) is status
    assert without(status, {"u-hello-a"}).active == ()
