"""The annotations under `kcr.dev/` of a CronJob, and the start of its runs within a window."""

from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from kcr.api.batch import CronJob
from kcr.controllers.cronjob.decisions.directives import CronJobDirectives, directives_of, offset_of
from kcr.controllers.cronjob.decisions.plan import NoOp, Start
from tests.kit.cronjob_builders import cron, judged
from tests.kit.cronjob_harness import CREATED, TEN, at


def spread(text: str, uid: str = "cj-uid", **fields: Any) -> CronJob:
    found = cron(**fields)
    return replace(found, metadata=replace(found.metadata, uid=uid, annotations={"kcr.dev/spread": text}))


def test_cronjob_without_annotations_asks_for_nothing() -> None:
    assert directives_of(cron()) == CronJobDirectives()
    assert offset_of(cron()) == timedelta()


def test_annotations_are_read() -> None:
    found = cron()
    annotations = {"kcr.dev/spread": "5m", "kcr.dev/clock-change-notice": "168h"}
    found = replace(found, metadata=replace(found.metadata, annotations=annotations))
    assert directives_of(found) == CronJobDirectives(timedelta(minutes=5), timedelta(days=7))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("0s", "the time is not between 1s and 24h", id="zero"),
        pytest.param("25h", "the time is not between 1s and 24h", id="too-long"),
        pytest.param("five", 'time: invalid duration "five"', id="no-duration"),
    ],
)
def test_value_that_cannot_be_read_counts_as_absent(text: str, fault: str) -> None:
    found = spread(text)
    assert offset_of(found) == timedelta()
    assert directives_of(found).faults == (f"annotation kcr.dev/spread: {text!r} is ignored: {fault}; write it as 5m",)


def test_offsets_of_many_cronjobs_fill_the_window_evenly() -> None:
    random = Random(1)
    uids = [str(UUID(int=random.getrandbits(128), version=4)) for _ in range(2000)]
    offsets = [offset_of(spread("100s", uid)).total_seconds() for uid in uids]
    assert (min(offsets), max(offsets)) == (0, 99)
    tenths = [sum(low <= offset < low + 10 for offset in offsets) for low in range(0, 100, 10)]
    assert all(140 <= count <= 260 for count in tenths), tenths
    assert [offset_of(spread("100s", uid)).total_seconds() for uid in uids] == offsets


def test_run_is_due_at_its_offset_under_the_name_of_its_schedule() -> None:
    found = spread("40s")
    offset = offset_of(found)
    assert timedelta() < offset < timedelta(seconds=40)
    early = judged(found, TEN + offset - timedelta(seconds=1))
    assert early.work == NoOp(timedelta(seconds=1, milliseconds=100))
    work = judged(found, TEN + offset).work
    assert isinstance(work, Start)
    assert (work.run, work.job.metadata.name) == (TEN, "hello-29671800")


def test_starting_deadline_counts_from_the_offset() -> None:
    found = spread("30s", starting_deadline_seconds=10)
    work = judged(found, TEN + offset_of(found) + timedelta(seconds=9)).work
    assert isinstance(work, Start)
    assert isinstance(judged(found, TEN + offset_of(found) + timedelta(seconds=12)).work, NoOp)


def test_run_before_the_creation_is_not_started_late() -> None:
    found = spread("10m", created=CREATED)
    assert isinstance(judged(found, at("10:00:00")).work, NoOp)
    assert isinstance(judged(found, CREATED + timedelta(seconds=20)).work, NoOp)
