"""What is decided on facts alone; the numbers are those of the rows in cronjob-controller §19."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from kcr.api.batch import CronJob
from kcr.controllers.cronjob.decisions.decide import decide, next_run_delay, too_late
from kcr.controllers.cronjob.decisions.jobs import SCHEDULED_AT
from kcr.controllers.cronjob.decisions.plan import Announcement, Facts, NoOp, Start
from tests.kit.cronjob_builders import cron, delay, job, judged, listed, reasons, started
from tests.kit.cronjob_harness import at

TEN = at("10:00:00")
DAY = timedelta(days=1)
NEVER = "time difference between two schedules is less than 1 second"


def every(schedule: str, created: str) -> CronJob:
    return cron(schedule, created=at(created))


@pytest.mark.parametrize(
    ("what", "now", "name", "told", "seconds"),
    [
        pytest.param(cron(), "10:00:00.1", "hello-29671800", [], 60.0, id="1-first-run"),
        pytest.param(cron(), "09:59:30", "", [], 30.1, id="2-not-yet-due"),
        pytest.param(cron(last=TEN), "10:00:30", "", [], 30.1, id="3-done-already"),
        pytest.param(cron(last=TEN), "10:03:30", "hello-29671803", [], 30.1, id="4-only-the-newest"),
        pytest.param(cron(last=TEN), "11:40:30", "hello-29671900", [], 30.1, id="5-a-hundred-missed"),
        pytest.param(cron(last=TEN), "11:41:30", "hello-29671901", ["TooManyMissedTimes"], 30.1, id="6-and-one-more"),
        pytest.param(
            cron(last=TEN, starting_deadline_seconds=200), "12:41:30", "hello-29671961", [], 30.1, id="7-within-200-s"
        ),
        pytest.param(cron(last=TEN, starting_deadline_seconds=0), "10:01:00.1", "", [], 60.0, id="8-no-time-at-all"),
        pytest.param(
            cron(last=TEN, starting_deadline_seconds=10), "10:01:09.9", "hello-29671801", [], 50.2, id="9-just-in-time"
        ),
        pytest.param(cron(last=TEN, starting_deadline_seconds=10), "10:01:10", "", [], 50.1, id="10-just-too-late"),
        pytest.param(cron(created=TEN), "10:00:00.5", "", [], 59.6, id="11-not-at-the-creation"),
        pytest.param(cron(created=TEN), "10:01:00", "hello-29671801", [], 60.1, id="12-due-at-the-very-moment"),
        pytest.param(every("@every 1h", "09:00:00"), "10:00:00.1", "hello-29671800", [], 3600.0, id="13-every-hour"),
        pytest.param(
            cron("@every 1h", created=at("09:00:00"), starting_deadline_seconds=10),
            "10:00:00.1", "", [], 3600.0, id="14-a-deadline-that-moves-along",
        ),
        pytest.param(
            cron("@every 1h", created=at("09:00:00"), starting_deadline_seconds=7200),
            "10:00:00.1", "hello-29671800", [], 3600.0, id="15-a-longer-deadline",
        ),
        pytest.param(
            cron("@every 90s", last=at("09:01:30")), "09:03:00.1", "hello-29671743", [], 90.0, id="16-every-90-s"
        ),
        pytest.param(
            cron(starting_deadline_seconds=10**11, last=TEN), "10:01:09.9", "hello-29671801", [], 50.2,
            id="Q10-endless-deadline",
        ),
        pytest.param(
            cron("30 1 * * *", time_zone="America/New_York", last=at("05:30:00", "2026-11-01")),
            "2026-11-01T06:30:00.1", "hello-29891910", [], 86400.0, id="56-the-same-hour-twice",
        ),
        pytest.param(
            cron("30 2 * * *", time_zone="America/New_York", last=at("07:30:00", "2026-03-07")),
            "2026-03-07T07:30:01", "", [], 46 * 3600 + 59 * 60 + 59.1, id="57-an-hour-that-is-skipped",
        ),
        pytest.param(
            cron("0 9 * * *", last=at("08:00:00")), "2026-06-02T08:00:00.1", "hello-29671740", [], 3600.0,
            id="63-the-timer-of-an-old-schedule",
        ),
    ],
)  # fmt: skip
def test_run_that_is_due_is_started_once(what: CronJob, now: str, name: str, told: list[str], seconds: float) -> None:
    moment = at(now) if "T" not in now else datetime.fromisoformat(now).replace(tzinfo=UTC)
    plan = judged(what, moment)
    assert (started(plan), reasons(plan)) == (name, told)
    assert delay(what, moment) == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize(
    ("policy", "name", "replaced"),
    [
        pytest.param("Allow", "hello-29671801", [], id="21-allow"),
        pytest.param("Replace", "hello-29671801", ["hello-a", "hello-b"], id="22-25-replace"),
        pytest.param("", "hello-29671801", [], id="unknown-policies-allow"),
    ],
)
def test_policy_says_what_becomes_of_running_jobs(policy: str, name: str, replaced: list[str]) -> None:
    running = job("hello-a"), job("hello-b")
    plan = judged(cron(last=TEN, active=running, concurrency_policy=policy), at("10:01:00.1"), *running)
    assert started(plan) == name
    assert isinstance(plan.work, Start)
    assert [reference.name for reference in plan.work.replaces] == replaced


def test_forbidden_run_waits_and_changes_nothing() -> None:
    # Row 19.
    what = cron(last=TEN, active=[job()], concurrency_policy="Forbid")
    plan = judged(what, at("10:01:00.1"), job())
    message = "Not starting job because prior execution is running and concurrency policy is Forbid"
    assert plan.announcements == (Announcement("Normal", "JobAlreadyActive", message),)
    assert plan.status is what.status
    assert plan.work == NoOp(timedelta(seconds=60))


def test_job_seen_to_end_no_longer_forbids() -> None:
    # Row 20.
    ended = job(end="Complete", completed=at("10:00:40"))
    plan = judged(cron(last=TEN, active=[ended], concurrency_policy="Forbid"), at("10:01:00.1"), ended)
    assert [told.message for told in plan.announcements] == ["Saw completed job: hello-a, condition: Complete"]
    assert started(plan) == "hello-29671801"
    assert plan.status.last_successful_time == at("10:00:40")


def test_job_seen_to_end_is_not_replaced() -> None:
    ended = job(end="Failed")
    plan = judged(cron(last=TEN, active=[ended], concurrency_policy="Replace"), at("10:01:00.1"), ended)
    assert isinstance(plan.work, Start)
    assert plan.work.replaces == ()


def test_minute_that_has_its_job_is_not_started_again() -> None:
    # Row 17.
    running = job("hello-29671800")
    what = cron("@every 30s", last=TEN, active=[running])
    plan = judged(what, at("10:00:30.1"), running)
    assert (plan.work, plan.status) == (NoOp(timedelta(seconds=30)), what.status)


def test_listed_job_of_the_run_is_its_start() -> None:
    # Row 41.
    running = job("hello-29671800")
    what = cron(active=[running])
    plan = judged(what, at("10:00:00.1"), running)
    assert (plan.work, plan.status, plan.announcements) == (NoOp(timedelta(seconds=60)), what.status, ())


def test_suspended_cronjob_still_follows_its_jobs() -> None:
    # Row 26.
    ended = job(end="Failed")
    plan = judged(cron(last=TEN, active=[ended], suspend=True), at("10:01:00.1"), ended)
    assert [told.message for told in plan.announcements] == ["Saw completed job: hello-a, condition: Failed"]
    assert (plan.work, listed(plan.status), plan.status.last_successful_time) == (NoOp(None), [], None)


@pytest.mark.parametrize(
    ("last", "deadline", "name", "told"),
    [
        pytest.param(at("04:00:00"), None, "hello-29671800", [], id="27-hours"),
        pytest.param(at("10:00:00") - 2 * DAY, None, "hello-29671800", ["TooManyMissedTimes"], id="28-days"),
        pytest.param(at("04:00:00"), 60, "", [], id="29-with-a-deadline"),
    ],
)
def test_resumed_cronjob_starts_the_run_it_missed_last(
    last: datetime, deadline: int | None, name: str, told: list[str]
) -> None:
    what = cron("*/10 * * * *", last=last, starting_deadline_seconds=deadline)
    plan = judged(what, at("10:05:00"))
    assert (started(plan), reasons(plan)) == (name, told)
    assert delay(what, at("10:05:00")) == pytest.approx(300.1)


def test_cronjob_that_goes_only_follows_its_jobs() -> None:
    # Row 30.
    ended = job(end="Complete", completed=at("09:59:50"))
    plan = judged(cron(active=[ended], deleted=TEN), at("10:00:30"), ended)
    assert reasons(plan) == ["SawCompletedJob"]
    assert (plan.work, listed(plan.status)) == (NoOp(None), [])
    assert plan.status.last_successful_time == at("09:59:50")


@pytest.mark.parametrize(
    ("what", "told"),
    [
        pytest.param(
            cron("nope"),
            [("UnparseableSchedule", 'unparseable schedule: "nope" : expected exactly 5 fields, found 1: [nope]')],
            id="42-no-schedule",
        ),
        pytest.param(
            cron("0 0 31 2 *"),
            [("InvalidSchedule", f"invalid schedule: 0 0 31 2 * : {NEVER}")],
            id="43-never-due",
        ),
        pytest.param(
            cron(", * * * *"),
            [("InvalidSchedule", f"invalid schedule: , * * * * : {NEVER}")],
            id="43-nothing-in-a-field",
        ),
        pytest.param(
            cron(time_zone="Bad/Zone"),
            [("UnknownTimeZone", 'invalid timeZone: "Bad/Zone": unknown time zone Bad/Zone')],
            id="44-no-zone",
        ),
        pytest.param(
            cron(time_zone="Bad/Zone", suspend=True),
            [("UnknownTimeZone", 'invalid timeZone: "Bad/Zone": unknown time zone Bad/Zone')],
            id="44-suspended",
        ),
        pytest.param(cron("nope", suspend=True), [], id="suspended-schedules-are-not-read"),
    ],
)  # fmt: skip
def test_cronjob_that_cannot_run_says_so_and_rests(what: CronJob, told: list[tuple[str, str]]) -> None:
    plan = judged(what, at("10:00:00.1"))
    assert [(one.reason, one.message) for one in plan.announcements] == told
    assert all(one.type == "Warning" for one in plan.announcements)
    assert plan.work == NoOp(None)


@pytest.mark.parametrize(
    ("what", "annotation", "told"),
    [
        pytest.param(
            cron("TZ=America/New_York 0 6 * * *"), "2026-06-01T10:00:00Z",
            ["UnsupportedSchedule"], id="45-in-the-schedule",
        ),
        pytest.param(
            cron("CRON_TZ=America/New_York 0 6 * * *", time_zone="Europe/Rome"), "2026-06-01T12:00:00+02:00",
            ["UnsupportedSchedule"], id="46-in-both",
        ),
        pytest.param(
            cron("0 6 * * *", time_zone="America/New_York"), "2026-06-01T06:00:00-04:00", [], id="47-in-the-field"
        ),
    ],
)  # fmt: skip
def test_zone_of_the_schedule_wins_over_the_fields(what: CronJob, annotation: str, told: list[str]) -> None:
    plan = judged(what, at("10:00:00.1"))
    assert isinstance(plan.work, Start)
    assert plan.work.run == TEN
    assert plan.work.job.metadata.annotations[SCHEDULED_AT] == annotation
    assert reasons(plan) == told
    assert delay(what, at("10:00:00.1")) == pytest.approx(DAY.total_seconds())


def test_schedule_with_a_zone_warns_in_the_known_words() -> None:
    plan = judged(cron("TZ=UTC 0 6 * * *", suspend=False), at("10:00:00.1"))
    assert plan.announcements[0].message == (
        'CRON_TZ or TZ used in schedule "TZ=UTC 0 6 * * *" is not officially supported, '
        "see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
    )


def test_schedule_without_a_zone_goes_by_the_local_one() -> None:
    # Section 9.1: the moment follows the zone of the process, the annotation does not.
    seen = Facts(cron=cron("0 6 * * *"), jobs=(), local=ZoneInfo("America/New_York"), now=at("10:00:00.1"))
    plan = decide(seen)
    assert isinstance(plan.work, Start)
    assert plan.work.run == TEN
    assert plan.work.job.metadata.annotations[SCHEDULED_AT] == "2026-06-01T10:00:00Z"


def test_run_whose_deadline_is_over_is_missed() -> None:
    # Row Q7: nothing leads here but a deadline that passes between two looks at the clock.
    seen = Facts(cron=cron(starting_deadline_seconds=10), jobs=(), local=UTC, now=at("10:00:10.5"))
    message = "Missed scheduled time to start a job: Mon, 01 Jun 2026 10:00:00 +0000"
    assert too_late(seen, TEN) == (Announcement("Warning", "MissSchedule", message),)
    assert too_late(replace(seen, now=at("10:00:10")), TEN) is None


@pytest.mark.parametrize(
    ("what", "seconds"),
    [
        # Row 38, with the correction of Q11: upstream sets no timer.
        pytest.param(cron(), 60.0, id="38-name-taken"),
        pytest.param(cron(last=at("09:00:00")), 60.0, id="long-ago"),
        pytest.param(cron("0 0 31 2 *"), None, id="never-due"),
        pytest.param(cron("nope"), None, id="no-schedule"),
    ],
)
def test_next_run_is_due_whatever_becomes_of_this_one(what: CronJob, seconds: float | None) -> None:
    left = next_run_delay(what, UTC, at("10:00:00.1"))
    assert left == (None if seconds is None else timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("now", "told"),
    [
        pytest.param("09:58:59", ["LastScheduleTimeInFuture"], id="clock-was-set-back"),
        pytest.param("09:59:00", [], id="clocks-that-differ-a-little"),
        pytest.param("10:00:30", [], id="past"),
    ],
)
def test_last_run_in_the_future_is_told(now: str, told: list[str]) -> None:
    plan = decide(Facts(cron=cron(last=TEN), jobs=(), local=UTC, now=at(now)))
    assert [one.reason for one in plan.announcements] == told
    assert isinstance(plan.work, NoOp)
