"""Which CronJobs are refused, on create and on change, and in which words (BA 10; rows 83-100 of its catalogue).

Source: kubernetes/pkg/apis/batch/validation/validation_test.go, TestValidateCronJob.
"""

from copy import deepcopy
from functools import partial
from typing import Any

import pytest

from kcr_devcluster.apiserver.protocol.manifests import Manifest
from tests.kit import manifests
from tests.kit.manifests import CRON_JOBS, cronjob

prepared = partial(manifests.prepared, strategy=CRON_JOBS)
refused = partial(manifests.refused, strategy=CRON_JOBS)


def refused_change(old: Manifest, **spec: Any) -> list[str]:
    return manifests.refused_update(old, manifests.changed(old, **spec), CRON_JOBS)


TEMPLATE = "spec.jobTemplate.spec"


def test_faults_come_in_the_order_of_the_rules() -> None:
    # BA 15.100, and more of the table of BA 10
    manifest = cronjob(
        schedule="bad", timeZone="Nope/Zone", concurrencyPolicy="X", startingDeadlineSeconds=-1,
        failedJobsHistoryLimit=-1, job_spec={"selector": {}, "manualSelector": True, "parallelism": -1},
    )  # fmt: skip
    assert [fault.partition(": ")[0] for fault in refused(manifest)] == [
        "spec.schedule", "spec.startingDeadlineSeconds", "spec.timeZone", "spec.concurrencyPolicy",
        f"{TEMPLATE}.parallelism", f"{TEMPLATE}.selector", f"{TEMPLATE}.manualSelector",
        "spec.failedJobsHistoryLimit",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("stored", "change", "words"),
    [
        pytest.param({"schedule": "TZ=UTC 0 * * * *"}, {"suspend": True}, None, id="stored-zone-stays"),
        pytest.param({"schedule": "TZ=UTC 0 * * * *"}, {"schedule": "CRON_TZ=UTC @daily"}, None, id="another-zone"),
        pytest.param(
            {"schedule": "TZ=UTC 0 * * * *"},
            {"timeZone": "UTC"},
            "cannot use both timeZone field and TZ or CRON_TZ in schedule",
            id="91",
        ),
    ],
)
def test_zone_in_the_schedule_lives_on_where_it_was(stored: Manifest, change: Manifest, words: str | None) -> None:
    # BA 10
    old = prepared(cronjob(**stored))
    schedule = {**old["spec"], **change}["schedule"]
    assert refused_change(old, **change) == ([f'spec.schedule: Invalid value: "{schedule}": {words}'] if words else [])


def test_unknown_zone_in_store_blocks_no_other_change() -> None:
    # BA 10
    old = prepared(cronjob(timeZone="Gone/Zone"))
    assert refused_change(old, suspend=True) == []
    assert refused_change(old, timeZone="Other/Zone") == [
        'spec.timeZone: Invalid value: "Other/Zone": unknown time zone Other/Zone'
    ]


def test_long_name_in_store_blocks_no_change() -> None:
    # BA 10: the length is judged on create only
    assert refused_change(prepared(cronjob("a" * 60)), suspend=True) == []


def test_any_status_is_taken_as_it_comes() -> None:
    # BA 10: nothing but metadata is validated
    old = prepared(cronjob())
    new = {**deepcopy(old), "status": {"active": [{"name": "x"}, {}], "lastScheduleTime": "1999-01-01T00:00:00Z"}}
    CRON_JOBS.default(new)
    assert CRON_JOBS.validate_status(new, old) == []


@pytest.mark.parametrize(
    ("zone", "words"),
    [
        ("Europe", "is a directory"),
        ("Europe/Berlin/x", "not a directory"),
        ("tzdata.zi", "malformed time zone information"),
        ("UTC..", "time: invalid location name"),
        ("../etc", "unknown time zone ../etc"),
        ("/etc/passwd", "unknown time zone /etc/passwd"),
    ],
)
def test_name_of_a_file_that_is_no_zone_is_refused_in_words_of_its_own(zone: str, words: str) -> None:
    """Source: recorded; cel-and-bodies.md, B26."""
    assert refused(cronjob(timeZone=zone)) == [f'spec.timeZone: Invalid value: "{zone}": {words}']


@pytest.mark.parametrize("variable", ["TZ", "CRON_TZ"])
def test_zone_of_the_server_in_a_schedule_is_a_zone(variable: str) -> None:
    """Source: recorded; cel-and-bodies.md, B26."""
    words = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
    schedule = f"{variable}=Local 0 * * * *"
    assert refused(cronjob(schedule=schedule)) == [f'spec.schedule: Invalid value: "{schedule}": {words}']
