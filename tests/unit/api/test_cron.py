"""When schedules fall due, across changes of the clocks. Sections are of cronjob-controller."""

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest

from kcr.api.cron import MOST_STEPS, next_run, search
from kcr.api.crontab import Fields, parse


def runs(text: str, zone: str, after: str, count: int) -> list[str]:
    """The next runs after a moment, as a clock of the zone shows them."""
    expression, place = parse(text), ZoneInfo(zone)
    moment: datetime | None = datetime.fromisoformat(after)
    shown = []
    for _ in range(count):
        assert moment is not None
        moment = next_run(expression, moment, place)
        shown.append("never" if moment is None else moment.astimezone(place).isoformat(timespec="minutes"))
    return shown


# §8.5
@pytest.mark.parametrize(
    ("text", "days"),
    [
        pytest.param("0 0 1,15 * 1", [8, 15, 22, 29, 1], id="either-day"),
        pytest.param("0 0 */2 * 1", [3, 5, 7, 8, 9], id="odd-days-or-mondays"),
        pytest.param("0 0 */1 * 1", [8, 15, 22, 29, 6], id="mondays"),
        pytest.param("0 0 1-31 * 1", [2, 3, 4, 5, 6], id="every-day"),
        pytest.param("0 0 1 * */1", [1, 1, 1, 1, 1], id="the-first"),
        pytest.param("0 0 ? * 1", [8, 15, 22, 29, 6], id="question-mark"),
    ],
)
def test_days_match_by_date_or_name_or_both(text: str, days: list[int]) -> None:
    assert [int(run[8:10]) for run in runs(text, "UTC", "2026-06-01T00:00:00Z", 5)] == days


# §9.3
@pytest.mark.parametrize(
    ("text", "zone", "after", "expected"),
    [
        pytest.param("30 2 * * *", "America/New_York", "2026-03-06T12:00Z",
                     ["2026-03-07T02:30-05:00", "2026-03-09T02:30-04:00"], id="inside-a-gap"),
        pytest.param("0 3 * * *", "America/New_York", "2026-03-07T12:00Z",
                     ["2026-03-08T03:00-04:00"], id="first-after-a-gap"),
        pytest.param("*/30 * * * *", "America/New_York", "2026-03-08T06:00Z",
                     ["2026-03-08T01:30-05:00", "2026-03-08T03:00-04:00", "2026-03-08T03:30-04:00"], id="over-a-gap"),
        pytest.param("30 1 * * *", "America/New_York", "2026-10-31T12:00Z",
                     ["2026-11-01T01:30-04:00", "2026-11-01T01:30-05:00", "2026-11-02T01:30-05:00"],
                     id="daily-twice-in-an-overlap"),
        pytest.param("*/15 1 * * *", "America/New_York", "2026-11-01T04:00Z",
                     ["2026-11-01T01:00-04:00", "2026-11-01T01:15-04:00", "2026-11-01T01:30-04:00",
                      "2026-11-01T01:45-04:00", "2026-11-01T01:00-05:00", "2026-11-01T01:15-05:00",
                      "2026-11-01T01:30-05:00", "2026-11-01T01:45-05:00", "2026-11-02T01:00-05:00"],
                     id="quarters-in-an-overlap"),
        pytest.param("0 * * * *", "America/New_York", "2026-11-01T04:00Z",
                     ["2026-11-01T01:00-04:00", "2026-11-01T01:00-05:00", "2026-11-01T02:00-05:00"],
                     id="hourly-in-an-overlap"),
        pytest.param("0 2 * * *", "America/New_York", "2026-10-31T12:00Z",
                     ["2026-11-01T02:00-05:00", "2026-11-02T02:00-05:00"], id="once-after-an-overlap"),
        pytest.param("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00Z",
                     ["2026-03-28T02:30+01:00", "2026-03-30T02:30+02:00"], id="gap-east"),
        pytest.param("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00Z",
                     ["2026-10-25T02:30+02:00", "2026-10-25T02:30+01:00", "2026-10-26T02:30+01:00"],
                     id="overlap-east"),
        pytest.param("0 2,3 * * *", "Europe/Berlin", "2026-10-24T12:00Z",
                     ["2026-10-25T02:00+02:00", "2026-10-25T02:00+01:00", "2026-10-25T03:00+01:00"],
                     id="list-over-an-overlap"),
        pytest.param("30 1 * * *", "Europe/London", "2026-03-28T00:00Z",
                     ["2026-03-28T01:30+00:00", "2026-03-30T01:30+01:00"], id="gap-in-london"),
        pytest.param("30 1 * * *", "Europe/London", "2026-10-24T12:00Z",
                     ["2026-10-25T01:30+01:00", "2026-10-25T01:30+00:00", "2026-10-26T01:30+00:00"],
                     id="overlap-in-london"),
        pytest.param("0 0 * * *", "Africa/Cairo", "2026-04-22T12:00Z",
                     ["2026-04-23T00:00+02:00", "2026-04-25T00:00+03:00"], id="missing-midnight"),
        pytest.param("0 12 * * *", "Africa/Cairo", "2026-04-23T12:00Z",
                     ["2026-04-24T12:00+03:00"], id="noon-after-a-missing-midnight"),
        pytest.param("0 12 24 4 *", "Africa/Cairo", "2026-01-01T00:00Z",
                     ["2027-04-24T12:00+02:00"], id="restricted-date-east-of-greenwich-is-lost"),
        pytest.param("0 12 * * 5", "Africa/Cairo", "2026-04-17T12:00Z",
                     ["2026-05-01T12:00+03:00"], id="restricted-weekday-is-lost-in-cairo"),
        pytest.param("0 12 * * 0", "Asia/Beirut", "2026-03-22T12:00Z",
                     ["2026-04-05T12:00+03:00"], id="restricted-weekday-is-lost-in-beirut"),
        pytest.param("0 12 8 3 *", "America/Havana", "2026-01-01T00:00Z",
                     ["2026-03-08T12:00-04:00"], id="restricted-date-west-of-greenwich-stays"),
        pytest.param("15 2 * * *", "Australia/Lord_Howe", "2026-10-02T20:00Z",
                     ["2026-10-05T02:15+11:00"], id="half-hour-change-skips-a-quarter-past"),
        pytest.param("0 3 * * *", "Australia/Lord_Howe", "2026-10-02T20:00Z",
                     ["2026-10-05T03:00+11:00"], id="half-hour-change-skips-the-hour-after"),
        pytest.param("0 0 31 2 *", "UTC", "2026-06-01T00:00Z", ["never"], id="no-such-date"),
        pytest.param(", * * * *", "UTC", "2026-06-01T00:00Z", ["never"], id="no-minute"),
        pytest.param("0 0 29 2 *", "UTC", "2096-03-01T00:00Z", ["never"], id="leap-day-beyond-the-horizon"),
        pytest.param("0 0 29 2 *", "UTC", "2098-12-31T23:59Z", ["never"], id="year-beyond-the-horizon"),
        pytest.param("0 0 29 2 *", "UTC", "2099-01-01T00:00Z", ["2104-02-29T00:00+00:00"], id="within-the-horizon"),
        pytest.param("0 0 29 2 *", "UTC", "2026-06-01T00:00Z", ["2028-02-29T00:00+00:00"], id="leap-day"),
        # 1 October has no midnight: the search lands on 30 September, 23:00, and a month later goes on from there.
        pytest.param("0 12 * 10 *", "America/Asuncion", "2017-08-15T00:00Z",
                     ["2017-10-31T12:00-03:00"], id="month-without-its-first-midnight-is-lost"),
        # The whole of 30 December 2011 is missing. Upstream never ends here.
        pytest.param("0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00Z",
                     ["2012-12-30T12:00+14:00"], id="a-date-that-is-missing"),
        pytest.param("0 12 31 * *", "Pacific/Apia", "2011-12-01T00:00Z",
                     ["2011-12-31T12:00+14:00"], id="the-day-after-a-missing-date"),
    ],
)  # fmt: skip
def test_runs_around_changes_of_the_clocks(text: str, zone: str, after: str, expected: list[str]) -> None:
    assert runs(text, zone, after, len(expected)) == expected


def test_every_counts_from_where_it_starts() -> None:
    # §9.4: no zone, no alignment, fractions of a second dropped
    every = parse("TZ=Asia/Kolkata @every 90s")
    start = datetime(2026, 6, 1, 10, 0, 7, 999_999, tzinfo=UTC)
    assert next_run(every, start, ZoneInfo("Asia/Tokyo")) == datetime(2026, 6, 1, 10, 1, 37, tzinfo=UTC)


def test_next_run_is_strictly_later_in_whole_seconds() -> None:
    noon, minute = datetime(2026, 6, 1, 12, tzinfo=UTC), timedelta(minutes=1)
    for text in ("* * * * *", "@every 1m"):
        assert next_run(parse(text), noon, UTC) == noon + minute
    assert next_run(parse("* * * * *"), noon - timedelta(microseconds=1), UTC) == noon


def test_moments_of_any_zone_are_understood() -> None:
    expression = parse("0 6 * * *")
    tokyo = datetime(2026, 6, 1, 6, tzinfo=ZoneInfo("Asia/Tokyo"))
    assert next_run(expression, tokyo, UTC) == datetime(2026, 6, 1, 6, tzinfo=UTC)
    assert next_run(parse("@every 1h"), tokyo, UTC) == datetime(2026, 5, 31, 22, tzinfo=UTC)


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Etc/GMT+12"])
@pytest.mark.parametrize("text", ["* * * * *", "0 0 1 1 *", "0 0 * * 1", "@every 2562047h"])
def test_first_and_last_moments_of_time_are_no_error(text: str, zone: str) -> None:
    expression, place = parse(text), ZoneInfo(zone)
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    assert next_run(expression, first, place) is not None
    assert next_run(expression, last, place) is None


@pytest.mark.parametrize(
    "text",
    ["0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *", ", * * * *", "* , * * *", "* * * , *", "* * , * ,"],
)
def test_what_can_never_match_is_known_at_once(text: str) -> None:
    expression = parse(text)
    assert isinstance(expression, Fields)
    assert search(expression, datetime(2026, 6, 1, tzinfo=UTC), UTC) == (None, 1)


class Hiccup(tzinfo):
    """A zone that has no hour from two to three on any day; `fold` tells the two offsets apart."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        return timedelta(hours=moment.fold if moment else 0)

    def dst(self, moment: datetime | None) -> None:
        return None

    def tzname(self, moment: datetime | None) -> str:
        return "Hiccup"

    def fromutc(self, moment: datetime) -> datetime:
        late = 2 <= moment.hour < 22
        return (moment + timedelta(hours=late)).replace(fold=int(late))


def test_search_without_end_is_given_up() -> None:
    expression = parse("0 2 * * *")
    assert isinstance(expression, Fields)
    assert search(expression, datetime(2026, 6, 1, tzinfo=UTC), Hiccup()) == (None, MOST_STEPS)


def test_fields_are_compared_with_the_clock_of_the_zone() -> None:
    noon, start = parse("0 12 * * *"), datetime(2026, 6, 1, tzinfo=UTC)
    assert next_run(noon, start, ZoneInfo("Asia/Tokyo")) == datetime(2026, 6, 1, 3, tzinfo=UTC)
    assert next_run(noon, start, UTC) == datetime(2026, 6, 1, 12, tzinfo=UTC)
