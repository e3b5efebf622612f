"""Events as rows, and the field selector of those about an object."""

from datetime import UTC, datetime, timedelta

import pytest

from kcr.api.batch import CronJob
from kcr.api.core import Event, EventSeries, ObjectReference, Pod
from kcr.api.meta import MicroTime, ObjectMeta
from kcr.cli.target import ObjectName
from kcr.controllers.job.commands.events import EventQuery, row_of

NOW = datetime(2025, 1, 1, tzinfo=UTC)


def ago(**since: float) -> datetime:
    return NOW - timedelta(**since)


def micro(moment: datetime) -> MicroTime:
    return MicroTime.fromtimestamp(moment.timestamp(), UTC)


@pytest.mark.parametrize(
    ("made", "cell"),
    [
        pytest.param(Event(first_timestamp=ago(minutes=2), last_timestamp=ago(minutes=2), count=1), "2m", id="once"),
        pytest.param(
            Event(first_timestamp=ago(minutes=10), last_timestamp=ago(minutes=2), count=5), "2m (x5 over 10m)",
            id="count",
        ),
        pytest.param(Event(event_time=micro(ago(seconds=9))), "9s", id="newer-form"),
        pytest.param(
            Event(
                event_time=micro(ago(hours=9)),
                series=EventSeries(count=3, last_observed_time=micro(ago(seconds=9))),
            ),
            "9s (x3 over 9h)", id="series",
        ),
        pytest.param(Event(first_timestamp=ago(seconds=-5)), "<invalid>", id="clock-behind"),
        pytest.param(Event(), "<unknown>", id="no-time"),
    ],
)  # fmt: skip
def test_last_seen_has_the_count_and_the_first_time(made: Event, cell: str) -> None:
    assert row_of(made, NOW)[1] == cell


def test_row_is_one_line_without_control_characters() -> None:
    about = ObjectReference(kind="Job", name="pi")
    metadata = ObjectMeta(namespace="team")
    made = Event(metadata=metadata, involved_object=about, type="Warning", reason="Bad", message="two\nlines \x1b[2J")
    assert row_of(made, NOW) == ("team", "<unknown>", "Warning", "Bad", "Job/pi", r"two lines \x1b[2J")


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        pytest.param(EventQuery(""), "", id="all"),
        pytest.param(EventQuery("", None, "Warning"), "type=Warning", id="type"),
        pytest.param(EventQuery("", ObjectName(CronJob, "pi")), "", id="cronjob"),
        pytest.param(
            EventQuery("", ObjectName(Pod, "pi"), "Normal"),
            "type=Normal,involvedObject.kind=Pod,involvedObject.name=pi", id="pod",
        ),
    ],
)  # fmt: skip
def test_server_selects_where_no_dependents_are_asked_for(query: EventQuery, fields: str) -> None:
    assert query.fields == fields
