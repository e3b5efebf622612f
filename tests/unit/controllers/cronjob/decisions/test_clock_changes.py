"""Changes of the clock that skip or repeat runs of a schedule."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from kcr.api.batch import CronJob
from kcr.controllers.cronjob.decisions.clock_changes import change_notice, next_change, time_to_notice
from kcr.controllers.cronjob.decisions.plan import NoOp
from kcr.controllers.cronjob.decisions.schedule import timetable_of
from tests.kit.cronjob_builders import cron, judged

SPRING = datetime(2026, 3, 29, 1, tzinfo=UTC)
AUTUMN = datetime(2026, 10, 25, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def berlin(schedule: str, **fields: Any) -> CronJob:
    return cron(schedule, time_zone="Europe/Berlin", **fields)


def text_before(change: datetime, schedule: str, zone: str = "Europe/Berlin") -> str:
    timetable = timetable_of(cron(schedule, time_zone=zone), UTC)
    found = change_notice(timetable, change - 5 * DAY, 7 * DAY)
    assert found is None or found.at == change
    return "" if found is None else found.text


@pytest.mark.parametrize(
    ("zone", "change", "hours"),
    [
        pytest.param("Europe/Berlin", SPRING, 1, id="forward"),
        pytest.param("Europe/Berlin", AUTUMN, -1, id="back"),
        pytest.param("Australia/Lord_Howe", datetime(2026, 4, 4, 15, tzinfo=UTC), -0.5, id="half-an-hour"),
        pytest.param("America/New_York", datetime(2026, 3, 8, 7, tzinfo=UTC), 1, id="new-york"),
    ],
)
def test_moment_of_a_change_is_found_to_the_second(zone: str, change: datetime, hours: float) -> None:
    for ahead in (timedelta(seconds=1), timedelta(days=6, seconds=7), timedelta(days=40)):
        found = next_change(ZoneInfo(zone), change - ahead, change + DAY)
        assert found is not None
        assert (found.moment, found.after - found.before) == (change, timedelta(hours=hours))
    assert next_change(ZoneInfo(zone), change, change + 20 * DAY) is None
    assert next_change(ZoneInfo(zone), change - 9 * DAY, change - timedelta(seconds=1)) is None


@pytest.mark.parametrize(
    ("schedule", "spring", "autumn"),
    [
        pytest.param(
            "30 2 * * *",
            "the clock of Europe/Berlin is set forward by 60m on 2026-03-29 at 02:00: the run of 02:30 is skipped on "
            "that day",
            "the clock of Europe/Berlin is set back by 60m on 2026-10-25 at 03:00: the run of 02:30 is started twice "
            "on that day",
            id="one-run",
        ),
        pytest.param(
            "*/15 1-3 * * *",
            "the clock of Europe/Berlin is set forward by 60m on 2026-03-29 at 02:00: the runs of 02:00, 02:15, 02:30 "
            "and 1 more are skipped on that day",
            "the clock of Europe/Berlin is set back by 60m on 2026-10-25 at 03:00: the runs of 02:00, 02:15, 02:30 "
            "and 1 more are started twice on that day",
            id="several-runs",
        ),
        pytest.param("0 3 * * *", "", "", id="hour-after"),
        pytest.param("30 2 1 * *", "", "", id="another-day"),
        pytest.param("*/5 * * * *", "", "", id="all-hours"),
        pytest.param("@every 1h", "", "", id="delay"),
        pytest.param("@daily", "", "", id="midnight"),
    ],
)
def test_change_is_described_by_its_effect(schedule: str, spring: str, autumn: str) -> None:
    assert text_before(SPRING, schedule) == spring
    assert text_before(AUTUMN, schedule) == autumn


def test_zone_without_changes_has_no_notice() -> None:
    assert text_before(SPRING, "30 2 * * *", "Asia/Tokyo") == ""


def test_change_beyond_the_notice_is_not_described() -> None:
    timetable = timetable_of(berlin("30 2 * * *"), UTC)
    assert change_notice(timetable, SPRING - 8 * DAY, 7 * DAY) is None


def test_rare_schedule_is_reconciled_when_the_change_is_to_be_announced() -> None:
    timetable = timetable_of(berlin("30 2 29 3 *"), UTC)
    wait = time_to_notice(timetable, SPRING - 20 * DAY, 7 * DAY, timedelta(days=400))
    assert wait == 13 * DAY
    assert time_to_notice(timetable, SPRING - 20 * DAY, 7 * DAY, timedelta(days=3)) == timedelta(days=3)
    assert time_to_notice(timetable, SPRING - 20 * DAY, 7 * DAY, None) is None


def test_only_an_annotated_cronjob_announces_a_change() -> None:
    found = berlin("30 2 * * *", created=SPRING - 60 * DAY, last=SPRING - timedelta(days=3, minutes=-30))
    now = SPRING - 3 * DAY + timedelta(hours=2)
    plain = judged(found, now)
    annotated = replace(found, metadata=replace(found.metadata, annotations={"kcr.dev/clock-change-notice": "168h"}))
    plan = judged(annotated, now)
    assert plain.clock_change is None
    assert plan.clock_change is not None
    assert plan.clock_change.at == SPRING
    assert plan.work == plain.work
    assert isinstance(plan.work, NoOp)
    suspended = replace(annotated, spec=replace(annotated.spec, suspend=True))
    assert judged(suspended, now).clock_change is None
