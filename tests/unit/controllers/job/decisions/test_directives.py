"""The annotations under `kcr.dev/` of a Job."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from kcr.api.batch import Job
from kcr.controllers.job.decisions.directives import (
    DEFAULT_CAUSES,
    BackoffRange,
    JobDirectives,
    StartDeadline,
    directives_of,
    own_limits,
)
from kcr.controllers.job.decisions.plan import Limits
from tests.kit.builders import job


def annotated(**texts: str) -> Job:
    """A Job with these annotations, `_` for `-`."""
    found = job()
    annotations = {f"kcr.dev/{name.replace('_', '-')}": text for name, text in texts.items()}
    return replace(found, metadata=replace(found.metadata, annotations=annotations))


def test_job_without_annotations_asks_for_nothing() -> None:
    assert directives_of(job()) == JobDirectives()
    assert directives_of(annotated(slot="3")) == JobDirectives()


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        pytest.param(
            {"start_deadline": "10m"},
            JobDirectives(start_deadline=StartDeadline(timedelta(minutes=10), DEFAULT_CAUSES)),
            id="start-deadline",
        ),
        pytest.param(
            {"start_deadline": "1m30s image, gates"},
            JobDirectives(start_deadline=StartDeadline(timedelta(seconds=90), ("image", "gates"))),
            id="start-deadline-with-causes",
        ),
        pytest.param({"backoff": "10s..5m"}, JobDirectives(backoff=BackoffRange(10, 300)), id="backoff"),
        pytest.param({"backoff": "0s .. 0s"}, JobDirectives(backoff=BackoffRange(0, 0)), id="no-backoff"),
        pytest.param(
            {"ttl_after_failure": "168h"}, JobDirectives(ttl_after_failure=timedelta(days=7)), id="ttl-after-failure"
        ),
        pytest.param({"failed_pods_history": "0"}, JobDirectives(failed_pods_history=0), id="failed-pods-history"),
    ],
)
def test_annotations_are_read(texts: dict[str, str], expected: JobDirectives) -> None:
    assert directives_of(annotated(**texts)) == expected


@pytest.mark.parametrize(
    ("texts", "fault"),
    [
        pytest.param({"start_deadline": "soon"}, 'time: invalid duration "soon"', id="no-duration"),
        pytest.param({"start_deadline": ""}, 'time: invalid duration ""', id="empty"),
        pytest.param({"start_deadline": "-1m"}, 'duration "-1m" is not between 0 and 100 years', id="negative"),
        pytest.param({"start_deadline": "0s"}, "the time is not above zero", id="zero"),
        pytest.param({"start_deadline": "5m quota"}, "there is no cause 'quota', known are", id="unknown-cause"),
        pytest.param({"backoff": "10s"}, "it is not a range", id="no-range"),
        pytest.param({"backoff": "10s.."}, 'time: invalid duration ""', id="half-a-range"),
        pytest.param({"backoff": "5m..10s"}, "the first delay is longer than the longest", id="range-upside-down"),
        pytest.param({"ttl_after_failure": "7d"}, 'time: unknown unit "d"', id="days"),
        pytest.param({"failed_pods_history": "-1"}, "it is not a whole number", id="negative-count"),
        pytest.param({"start_deadline": "9" * 500}, "time: missing unit", id="long"),
    ],
)
def test_value_that_cannot_be_read_counts_as_absent_and_is_named(texts: dict[str, str], fault: str) -> None:
    found = directives_of(annotated(**texts))
    assert found._replace(faults=()) == JobDirectives()
    (told,) = found.faults
    (name,) = texts
    assert told.startswith(f"annotation kcr.dev/{name.replace('_', '-')}: '")
    assert fault in told
    assert "; write it as " in told
    assert len(told) < 400


def test_one_bad_value_leaves_the_others_in_force() -> None:
    found = directives_of(annotated(backoff="1s..2s", failed_pods_history="few"))
    assert (found.backoff, len(found.faults)) == (BackoffRange(1, 2), 1)


def test_backoff_of_a_job_takes_the_place_of_the_controllers() -> None:
    limits = Limits(max_changes=7)
    assert own_limits(annotated(backoff="1s..2m"), limits) == Limits(1.0, 120.0, max_changes=7)
    assert own_limits(annotated(backoff="?"), limits) is limits
