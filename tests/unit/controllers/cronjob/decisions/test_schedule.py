"""Due and missed runs, and when to look again. Sections are of cronjob-controller."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from kcr.api.batch import CronJob, CronJobSpec, CronJobStatus
from kcr.api.crontab import CronError, UnknownZoneError
from kcr.api.meta import ObjectMeta
from kcr.controllers.cronjob.decisions.schedule import (
    Due,
    Missed,
    NeverDueError,
    Timetable,
    due,
    names_zone,
    recent,
    requeue_delay,
    timetable_of,
    zone_of,
)

TOKYO = ZoneInfo("Asia/Tokyo")
NEW_YORK = "America/New_York"
FEW, MANY, NONE = Missed.FEW, Missed.MANY, Missed.NONE


def cronjob(
    schedule: str = "*/1 * * * *",
    *,
    created: datetime = datetime(2026, 6, 1, 9, 59, 10, tzinfo=UTC),
    last: datetime | None = None,
    deadline: int | None = None,
    zone: str | None = None,
) -> CronJob:
    return CronJob(
        metadata=ObjectMeta(name="hello", namespace="default", uid="cj-uid", creation_timestamp=created),
        spec=CronJobSpec(schedule=schedule, starting_deadline_seconds=deadline, time_zone=zone),
        status=CronJobStatus(last_schedule_time=last),
    )


def timetable(one: CronJob) -> Timetable:
    return timetable_of(one, UTC)


def at(clock: str, day: str = "2016-05-19") -> datetime:
    """A moment as `10:30:00`, or with its date as `06-07 11:30`; UTC."""
    *date, time = clock.split()
    return datetime.fromisoformat(f"{day[:5] + date[0] if date else day}T{time}+00:00")


def june(clock: str) -> datetime:
    return at(clock, "2026-06-01")


def seconds(delay: timedelta | None) -> float | None:
    return None if delay is None else delay.total_seconds()


HOUR, DAY = 3_600.0, 86_400.0


# §20, all rows. C: created, L: last scheduled.
@pytest.mark.parametrize(
    ("schedule", "start", "now", "run", "missed", "delay"),
    [
        pytest.param("0 * * * *", "C 10:00:00", "10:00:30", None, NONE, HOUR - 29.9, id="not-due-yet"),
        pytest.param("0 * * * *", "C 10:00:00", "11:01:00", "11:00", NONE, HOUR - 59.9, id="first-run"),
        pytest.param("0 * * * *", "C 10:00:10", "15:01:00", "15:00", FEW, HOUR - 59.9, id="some-missed"),
        pytest.param("30 6-16/4 * * 1-5", "L 10:30", "05-20 10:31", "05-20 10:30", FEW, 4 * HOUR - 59.9, id="workday"),
        pytest.param("30 10,11,12 * * 1-5", "L 10:30", "05-20 16:30", None, FEW, 66 * HOUR + 0.1, id="uneven"),
        pytest.param("30 6-16/4 * * 1-5", "L 10:30", "05-23 10:31", "05-23 10:30", FEW, 4 * HOUR - 59.9, id="weekend"),
        pytest.param("@every 1h", "L 10:01", "05-26 10:00", "05-26 09:01", MANY, 60.1, id="every-hour-for-a-week"),
        pytest.param("0 12 * * 4", "L 12:00", "06-07 11:30", "06-02 12:00", FEW, 48.5 * HOUR + 0.1, id="thursdays"),
        pytest.param("0 12 * * 5", "C 10:00", "16:00", None, NONE, 20 * HOUR + 0.1, id="friday-ahead"),
        pytest.param("*/5 * * * *", "L 10:00", "10:04:59.95", None, NONE, 0.15, id="just-before"),
        pytest.param("*/5 * * * *", "L 10:00", "10:05:00", "10:05", NONE, 300.1, id="exactly-now"),
        pytest.param("*/5 * * * *", "L 10:00", "10:10:00", "10:10", FEW, 300.1, id="second-run-exactly-now"),
        pytest.param("*/5 * * * *", "L 12:00", "10:00", None, NONE, 2 * HOUR + 300.1, id="last-run-in-the-future"),
        pytest.param("@every 5m", "L 10:03:13", "10:30:00", "10:28:13", FEW, 193.1, id="every-five-minutes"),
        pytest.param("* 9-17 * * *", "L 09:05", "20:00", None, MANY, 13 * HOUR + 0.1, id="Q6-lost-run"),
        pytest.param("0 9-17 * * 1-5", "L 05-20 17:00", "05-23 11:30", "05-23 11:00", FEW, HOUR / 2 + 0.1, id="monday"),
    ],
)
def test_most_recent_run_and_delay_without_deadline(
    schedule: str, start: str, now: str, run: str | None, missed: Missed, delay: float
) -> None:
    kind, moment = start.split(maxsplit=1)
    one = cronjob(
        schedule, created=at(moment) if kind == "C" else at("00:00"), last=at(moment) if kind == "L" else None
    )
    found = recent(one, timetable(one), at(now), use_deadline=False)
    assert found == (at(moment), run and at(run), missed)
    assert seconds(requeue_delay(one, timetable(one), at(now))) == pytest.approx(delay)


# §20, the rows with a deadline
@pytest.mark.parametrize(
    ("schedule", "last", "now", "without", "within", "delay"),
    [
        pytest.param("*/5 * * * *", "10:30", "10:32", ("10:30", None, NONE), ("10:31", None, NONE), 180.1, id="one"),
        pytest.param("0 * * * *", "08:00", "10:30", ("08:00", "10:00", FEW), ("10:29", None, NONE), 1800.1, id="two"),
    ],
)
def test_deadline_moves_the_start_but_not_the_timer(
    schedule: str,
    last: str,
    now: str,
    without: tuple[str, str | None, Missed],
    within: tuple[str, str | None, Missed],
    delay: float,
) -> None:
    one = cronjob(schedule, last=at(last), deadline=60)
    for use, (earliest, run, missed) in ((False, without), (True, within)):
        found = recent(one, timetable(one), at(now), use_deadline=use)
        assert found == (at(earliest), run and at(run), missed)
    assert seconds(requeue_delay(one, timetable(one), at(now))) == pytest.approx(delay)


# §19, as far as due times go. The status is the one before the run is recorded.
@pytest.mark.parametrize(
    ("one", "now", "expected"),
    [
        pytest.param(cronjob(), "10:00:00.1", Due(june("10:00"), False), id="1"),
        pytest.param(cronjob(), "09:59:30", Due(None, False), id="2"),
        pytest.param(cronjob(last=june("10:00")), "10:00:30", Due(None, False), id="3"),
        pytest.param(cronjob(last=june("10:00")), "10:03:30", Due(june("10:03"), False), id="4"),
        pytest.param(cronjob(last=june("10:00")), "11:40:30", Due(june("11:40"), False), id="5"),
        pytest.param(cronjob(last=june("10:00")), "11:41:30", Due(june("11:41"), True), id="6"),
        pytest.param(cronjob(last=june("10:00"), deadline=200), "12:41:30", Due(june("12:41"), False), id="7"),
        pytest.param(cronjob(last=june("10:00"), deadline=0), "10:01:00.1", Due(None, False), id="8"),
        pytest.param(cronjob(last=june("10:00"), deadline=10), "10:01:09.9", Due(june("10:01"), False), id="9"),
        pytest.param(cronjob(last=june("10:00"), deadline=10), "10:01:10.0", Due(None, False), id="10"),
        pytest.param(
            cronjob(last=june("10:00:59"), deadline=10), "10:01:10.0", Due(None, False), id="10-run-just-before"
        ),
        pytest.param(cronjob(created=june("10:00")), "10:00:00.5", Due(None, False), id="11"),
        pytest.param(cronjob(created=june("10:00")), "10:01:00", Due(june("10:01"), False), id="12"),
        pytest.param(cronjob("@every 1h", created=june("09:00")), "10:00:00.1", Due(june("10:00"), False), id="13"),
        pytest.param(cronjob("@every 1h", created=june("09:00"), deadline=10), "10:00:00.1", Due(None, False), id="14"),
        pytest.param(
            cronjob("@every 1h", created=june("09:00"), deadline=7200), "10:00:00.1", Due(june("10:00"), False), id="15"
        ),
        pytest.param(cronjob("@every 90s", last=june("09:01:30")), "09:03:00.1", Due(june("09:03"), False), id="16"),
        pytest.param(cronjob("@every 30s", last=june("10:00")), "10:00:30.1", Due(june("10:00:30"), False), id="17"),
        pytest.param(
            cronjob("*/10 * * * *", last=june("04:00"), created=june("03:00")),
            "10:05",
            Due(june("10:00"), False),
            id="27",
        ),
        pytest.param(
            cronjob("*/10 * * * *", last=june("04:00") - timedelta(days=2)), "10:05", Due(june("10:00"), True), id="28"
        ),
        pytest.param(cronjob("*/10 * * * *", last=june("04:00"), deadline=60), "10:05", Due(None, False), id="29"),
        pytest.param(
            cronjob(f"TZ={NEW_YORK} 0 6 * * *", last=june("10:00") - timedelta(days=1)),
            "10:00:00.1",
            Due(june("10:00"), False),
            id="45",
        ),
        pytest.param(
            cronjob(f"CRON_TZ={NEW_YORK} 0 6 * * *", zone="Europe/Rome", last=june("10:00") - timedelta(days=1)),
            "10:00:00.1",
            Due(june("10:00"), False),
            id="46",
        ),
        pytest.param(cronjob("0 6 * * *", zone=NEW_YORK), "10:00:00.1", Due(june("10:00"), False), id="47"),
        pytest.param(cronjob("0 9 * * *", last=june("08:00")), "06-02 08:00:00.1", Due(june("09:00"), False), id="63"),
    ],
)
def test_run_that_is_due(one: CronJob, now: str, expected: Due) -> None:
    assert due(one, timetable(one), june(now)) == expected


# §19; after a start the last run is the one started.
@pytest.mark.parametrize(
    ("one", "now", "delay"),
    [
        pytest.param(cronjob(last=june("10:00")), "10:00:00.1", 60.0, id="1"),
        pytest.param(cronjob(), "09:59:30", 30.1, id="2"),
        pytest.param(cronjob(last=june("10:00"), deadline=0), "10:01:00.1", 60.0, id="8"),
        pytest.param(cronjob(last=june("10:01"), deadline=10), "10:01:09.9", 50.2, id="9"),
        pytest.param(cronjob(last=june("10:00"), deadline=10), "10:01:10.0", 50.1, id="10"),
        pytest.param(cronjob(created=june("10:00")), "10:00:00.5", 59.6, id="11"),
        pytest.param(cronjob(last=june("10:01")), "10:01:00", 60.1, id="12"),
        pytest.param(cronjob("@every 1h", created=june("09:00"), deadline=10), "10:00:00.1", HOUR, id="14"),
        pytest.param(cronjob("@every 90s", last=june("09:03")), "09:03:00.1", 90.0, id="16"),
        pytest.param(cronjob("@every 30s", last=june("10:00")), "10:00:30.1", 30.0, id="17"),
        pytest.param(cronjob("*/10 * * * *", last=june("10:00")), "10:05", 300.1, id="27"),
        pytest.param(cronjob("*/10 * * * *", last=june("04:00"), deadline=60), "10:05", 300.1, id="29"),
        pytest.param(cronjob(f"TZ={NEW_YORK} 0 6 * * *", last=june("10:00")), "10:00:00.1", DAY, id="45"),
        pytest.param(cronjob(last=june("09:59")), "09:59:59", 1.1, id="58"),
        pytest.param(cronjob("@every 3m", last=june("09:59")), "09:59:59", 121.1, id="59"),
        pytest.param(cronjob("0 9 * * *", last=june("09:00")), "06-02 08:00:00.1", HOUR, id="63"),
    ],
)
def test_delay_until_shortly_after_the_next_run(one: CronJob, now: str, delay: float) -> None:
    assert seconds(requeue_delay(one, timetable(one), june(now))) == pytest.approx(delay)


def test_second_run_of_an_overlap_is_due() -> None:
    # §19 scenario 56
    first, second = datetime(2026, 11, 1, 5, 30, tzinfo=UTC), datetime(2026, 11, 1, 6, 30, tzinfo=UTC)
    now = second + timedelta(seconds=0.1)
    one = cronjob("30 1 * * *", zone=NEW_YORK, last=first)
    assert due(one, timetable(one), now) == (second, False)
    started = cronjob("30 1 * * *", zone=NEW_YORK, last=second)
    assert requeue_delay(started, timetable(started), now) == timedelta(days=1)


def test_delay_reaches_over_a_day_that_is_skipped() -> None:
    # §19 scenario 57
    last = datetime(2026, 3, 7, 7, 30, tzinfo=UTC)
    one = cronjob("30 2 * * *", zone=NEW_YORK, last=last)
    delay = requeue_delay(one, timetable(one), last + timedelta(seconds=1))
    assert delay == timedelta(hours=47) - timedelta(seconds=0.9)


@pytest.mark.parametrize("schedule", ["0 0 31 2 *", ", * * * *", "59 23 31 2 *"])
def test_schedule_that_never_falls_due_says_so(schedule: str) -> None:
    # §19 scenario 43
    one = cronjob(schedule)
    with pytest.raises(NeverDueError, match=r"^time difference between two schedules is less than 1 second$"):
        due(one, timetable(one), june("10:00:00.1"))
    assert requeue_delay(one, timetable(one), june("10:00:00.1")) is None


def test_one_last_run_before_the_horizon_is_never_due() -> None:
    # §11.1: without a second run there is no distance to estimate from.
    one = cronjob("0 0 29 2 *", created=datetime(2095, 6, 1, tzinfo=UTC))
    run = datetime(2096, 2, 29, tzinfo=UTC)
    assert due(one, timetable(one), run - timedelta(seconds=1)) == (None, False)
    with pytest.raises(NeverDueError):
        due(one, timetable(one), run)
    assert requeue_delay(one, timetable(one), run) is None


def test_nobody_waits_for_what_was_never_created() -> None:
    one = CronJob(spec=CronJobSpec(schedule="* * * * *"))
    assert due(one, timetable(one), june("10:00")) == (None, False)


@pytest.mark.parametrize("deadline", [9_223_372_037, 2**63 - 1])
def test_huge_deadline_is_none_at_all(deadline: int) -> None:
    # Q10
    one = cronjob(last=june("10:00"), deadline=deadline)
    assert due(one, timetable(one), june("10:03:30")) == (june("10:03"), False)


@pytest.mark.parametrize("outage", [timedelta(minutes=1), timedelta(hours=1), timedelta(days=3_650)])
def test_delay_keeps_its_phase_after_an_outage(outage: timedelta) -> None:
    last = june("10:00:03")
    one = cronjob("@every 7s", last=last)
    run = recent(one, timetable(one), last + outage, use_deadline=False).run
    assert run == last + outage // timedelta(seconds=7) * timedelta(seconds=7)


def test_schedule_without_zone_follows_the_local_clock() -> None:
    one = cronjob("0 6 * * *")
    assert timetable_of(one, TOKYO).next(june("00:00")) == june("21:00")


@pytest.mark.parametrize(
    ("schedule", "zone", "expected"),
    [
        pytest.param("0 6 * * *", NEW_YORK, "10:00", id="zone-of-the-spec"),
        pytest.param("0 6 * * *", "", "06:00", id="empty-zone-is-utc"),
        pytest.param("0 6 * * *", "Bad/Zone", "21:00", id="unknown-zone-counts-as-none"),
        pytest.param(f"TZ={NEW_YORK} 0 6 * * *", "Europe/Rome", "10:00", id="zone-of-the-schedule-wins"),
        pytest.param(" @daily ", NEW_YORK, "04:00", id="blanks-around-a-descriptor-with-a-zone"),
    ],
)
def test_zone_decides_when_a_schedule_runs(schedule: str, zone: str, expected: str) -> None:
    # §8.1
    assert timetable_of(cronjob(schedule, zone=zone), TOKYO).next(june("00:00")) == june(expected)


@pytest.mark.parametrize(
    ("schedule", "zone", "message"),
    [
        pytest.param("nope", None, "expected exactly 5 fields, found 1: [nope]", id="42"),
        pytest.param("nope", NEW_YORK, "expected exactly 5 fields, found 1: [nope]", id="with-a-zone"),
        pytest.param("", NEW_YORK, "expected exactly 5 fields, found 0: []", id="empty-with-a-zone"),
        pytest.param("", None, "empty spec string", id="empty"),
        pytest.param(
            "* * * * TZ", None, 'failed to parse int from TZ: strconv.Atoi: parsing "TZ": invalid syntax', id="x"
        ),
        pytest.param("TZ=Bad * * * * *", None, "provided bad location Bad: unknown time zone Bad", id="bad-prefix"),
    ],
)
def test_schedule_that_cannot_be_read_says_why(schedule: str, zone: str | None, message: str) -> None:
    with pytest.raises(CronError) as caught:
        timetable_of(cronjob(schedule, zone=zone), UTC)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("schedule", "named"),
    [("TZ=UTC * * * * *", True), ("CRON_TZ=UTC * * * * *", True), ("* * * * TZ", True), ("tz=UTC * * * * *", False)],
)
def test_letters_tz_anywhere_count_as_a_zone(schedule: str, named: bool) -> None:
    assert names_zone(cronjob(schedule)) is named  # §8.1


@pytest.mark.parametrize(("name", "zone"), [(None, TOKYO), ("", UTC), ("UTC", UTC), (NEW_YORK, ZoneInfo(NEW_YORK))])
def test_zone_is_local_unless_the_spec_names_one(name: str | None, zone: object) -> None:
    assert zone_of(cronjob(zone=name), TOKYO) is zone


def test_unknown_zone_is_told_in_the_words_of_the_event() -> None:
    # §7 gate 2
    with pytest.raises(UnknownZoneError, match=r'^invalid timeZone: "Bad/Zone": unknown time zone Bad/Zone$'):
        zone_of(cronjob(zone="Bad/Zone"), UTC)
