"""Which CronJobs are refused, on create and on change, and in which words (BA 10; rows 83-100 of its catalogue).

Source: kubernetes/pkg/apis/batch/validation/validation_test.go, TestValidateCronJob.
"""

from copy import deepcopy
from functools import partial
from typing import Any

import pytest

from kcr_devcluster.apiserver.kinds.strategy import UndecodableError
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from tests.kit import manifests
from tests.kit.manifests import CRON_JOBS, cronjob

prepared = partial(manifests.prepared, strategy=CRON_JOBS)
refused = partial(manifests.refused, strategy=CRON_JOBS)


def refused_change(old: Manifest, **spec: Any) -> list[str]:
    return manifests.refused_update(old, manifests.changed(old, **spec), CRON_JOBS)


NEGATIVE = "must be greater than or equal to 0"
TEMPLATE = "spec.jobTemplate.spec"
RESTARTS = 'valid values: "OnFailure", "Never"'
NO_TZ = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(cronjob(schedule="0 0 31 2 *"), id="never"),
        pytest.param(cronjob(schedule=", * * * *"), id="nothing"),
        pytest.param(cronjob(schedule="@every 1s"), id="every-second"),
        pytest.param(cronjob(schedule="@hourly", timeZone="America/Argentina/Buenos_Aires"), id="zone-in-three-parts"),
        pytest.param(cronjob(timeZone="Etc/GMT+1"), id="zone-with-plus"),
        pytest.param(cronjob(timeZone="UTC"), id="utc"),
        pytest.param(cronjob("a" * 52), id="longest-name"),
        pytest.param(cronjob("hello.v2"), id="name-with-dots"),
        pytest.param(cronjob(startingDeadlineSeconds=0, failedJobsHistoryLimit=0), id="zeros"),
        pytest.param(cronjob(job_spec={"manualSelector": False}), id="selector-by-the-server"),
        pytest.param(cronjob(job_spec={"completionMode": "Indexed", "completions": 3}), id="no-parallelism"),
        pytest.param(cronjob(pod={"restartPolicy": "OnFailure"}), id="on-failure"),
    ],
)  # fmt: skip
def test_unusual_cron_job_is_accepted(manifest: Manifest) -> None:
    # BA 10
    assert refused(manifest) == []


def test_metadata_of_the_template_is_not_judged() -> None:
    # BA 10
    manifest = cronjob()
    manifest["spec"]["jobTemplate"]["metadata"] = {"name": "Not A Name", "labels": {"a b": "c d"}}
    assert refused(manifest) == []


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        pytest.param("error", "expected exactly 5 fields, found 1: [error]", id="84"),
        pytest.param("* * * * * *", "expected exactly 5 fields, found 6: [* * * * * *]", id="85"),
        pytest.param("60 * * * *", "end of range (60) above maximum (59): 60", id="86"),
        pytest.param("0 0 * * 7", "end of range (7) above maximum (6): 7", id="87"),
        pytest.param("@reboot", "unrecognized descriptor: @reboot", id="88-descriptor"),
        pytest.param(
            "@every 1d",
            'failed to parse duration @every 1d: time: unknown unit "d" in duration "1d"',
            id="88-duration",
        ),
    ],
)
def test_schedule_is_refused_in_the_parsers_words(schedule: str, words: str) -> None:
    # BA 15.D
    assert refused(cronjob(schedule=schedule)) == [f'spec.schedule: Invalid value: "{schedule}": {words}']


@pytest.mark.parametrize("schedule", [None, ""], ids=["absent", "empty"])
def test_schedule_is_required(schedule: str | None) -> None:
    # BA 15.83
    assert refused(cronjob(schedule=schedule)) == ["spec.schedule: Required value"]


def test_new_schedule_may_not_name_a_zone() -> None:
    # BA 15.89, 15.90: in addition to what the parser says
    text = "TZ=UTC 0 * * * *"
    assert refused(cronjob(schedule=text)) == [f'spec.schedule: Invalid value: "{text}": {NO_TZ}']
    assert refused(cronjob(schedule="TZ=0")) == [
        'spec.schedule: Invalid value: "TZ=0": invalid schedule format: runtime error: slice bounds out of range [:-1]',
        f'spec.schedule: Invalid value: "TZ=0": {NO_TZ}',
    ]


EXPLICIT = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"


@pytest.mark.parametrize(
    ("zone", "reasons"),
    [
        pytest.param("", ["timeZone must be nil or non-empty string"], id="92-empty"),
        pytest.param("Bad/Zone", ["unknown time zone Bad/Zone"], id="92-unknown"),
        pytest.param("Local", [EXPLICIT], id="92-local"),
        pytest.param("local", [EXPLICIT, "unknown time zone local"], id="local-in-lower-case"),
        pytest.param("europe/berlin", ["unknown time zone europe/berlin"], id="lower-case"),
        pytest.param("Europe", ["unknown time zone Europe"], id="a-directory"),
        pytest.param("Europe/../UTC", ["unknown time zone Europe/../UTC"], id="dots"),
        pytest.param("./UTC", ["unknown time zone ./UTC"], id="dot"),
        pytest.param("-UTC", ["unknown time zone -UTC"], id="dash-first"),
        pytest.param("/UTC", ["unknown time zone /UTC"], id="slash-first"),
        pytest.param("Europe/Ber lin", ["unknown time zone Europe/Ber lin"], id="blank"),
        pytest.param("UTC\n", ["unknown time zone UTC\n"], id="end-of-line"),
        pytest.param("Abcdefghijklmno", ["unknown time zone Abcdefghijklmno"], id="long-part"),
    ],
)
def test_zone_has_to_be_one_that_loads(zone: str, reasons: list[str]) -> None:
    # BA 10.1
    shown = zone.replace("\n", "\\n")
    assert refused(cronjob(timeZone=zone)) == [f'spec.timeZone: Invalid value: "{shown}": {one}' for one in reasons]


@pytest.mark.parametrize(
    ("manifest", "faults"),
    [
        pytest.param(
            cronjob("a" * 53),
            [f'metadata.name: Invalid value: "{"a" * 53}": must be no more than 52 characters'],
            id="93",
        ),
        pytest.param(
            cronjob(concurrencyPolicy="Foo"),
            ['spec.concurrencyPolicy: Unsupported value: "Foo": supported values: "Allow", "Forbid", "Replace"'],
            id="94",
        ),
        pytest.param(
            cronjob(startingDeadlineSeconds=-1),
            [f"spec.startingDeadlineSeconds: Invalid value: -1: {NEGATIVE}"],
            id="95-deadline",
        ),
        pytest.param(
            cronjob(successfulJobsHistoryLimit=-1, failedJobsHistoryLimit=-2),
            [
                f"spec.successfulJobsHistoryLimit: Invalid value: -1: {NEGATIVE}",
                f"spec.failedJobsHistoryLimit: Invalid value: -2: {NEGATIVE}",
            ],
            id="95-limits",
        ),
        pytest.param(
            cronjob(job_spec={"selector": {"matchLabels": {"a": "b"}}}),
            [f'{TEMPLATE}.selector: Invalid value: {{"matchLabels":{{"a":"b"}}}}: `selector` will be auto-generated'],
            id="96",
        ),
        pytest.param(
            cronjob(job_spec={"manualSelector": True}),
            [f'{TEMPLATE}.manualSelector: Unsupported value: true: supported values: "nil", "false"'],
            id="97",
        ),
        pytest.param(
            cronjob(pod={"restartPolicy": "Always"}),
            [f"{TEMPLATE}.template.spec.restartPolicy: Required value: {RESTARTS}"],
            id="98",
        ),
        pytest.param(
            cronjob(jobTemplate=None),
            [
                f"{TEMPLATE}.template.spec.containers: Required value",
                f"{TEMPLATE}.template.spec.restartPolicy: Required value: {RESTARTS}",
            ],
            id="99",
        ),
        pytest.param(
            cronjob(job_spec={"parallelism": -1, "backoffLimit": -1}),
            [
                f"{TEMPLATE}.parallelism: Invalid value: -1: {NEGATIVE}",
                f"{TEMPLATE}.backoffLimit: Invalid value: -1: {NEGATIVE}",
            ],
            id="rules-of-jobs",
        ),
        pytest.param(
            cronjob(job_spec={"completionMode": "Indexed"}),
            [f"{TEMPLATE}.completions: Required value: when completion mode is Indexed"],
            id="indexed-without-completions",
        ),
    ],
)
def test_cron_job_is_refused_by_field(manifest: Manifest, faults: list[str]) -> None:
    # BA 15.D
    assert refused(manifest) == faults


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
    "change",
    [
        pytest.param({"schedule": "@hourly"}, id="schedule"),
        pytest.param({"timeZone": "Asia/Tokyo"}, id="zone"),
        pytest.param({"timeZone": None}, id="no-zone"),
        pytest.param({"suspend": True}, id="suspend"),
        pytest.param({"concurrencyPolicy": "Replace"}, id="policy"),
        pytest.param({"startingDeadlineSeconds": 9}, id="deadline"),
        pytest.param({"successfulJobsHistoryLimit": 0}, id="limit"),
        pytest.param({"jobTemplate": cronjob(pod={"hostNetwork": True})["spec"]["jobTemplate"]}, id="template"),
    ],
)  # fmt: skip
def test_every_member_of_the_spec_may_change(change: Manifest) -> None:
    # BA 10
    assert refused_change(prepared(cronjob(timeZone="UTC")), **change) == []


@pytest.mark.parametrize(
    ("stored", "change", "words"),
    [
        pytest.param({"schedule": "TZ=UTC 0 * * * *"}, {"suspend": True}, None, id="stored-zone-stays"),
        pytest.param({"schedule": "TZ=UTC 0 * * * *"}, {"schedule": "CRON_TZ=UTC @daily"}, None, id="another-zone"),
        pytest.param({}, {"schedule": "TZ=UTC 0 * * * *"}, NO_TZ, id="zone-added"),
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
    ("change", "text"),
    [
        pytest.param(
            {"startingDeadlineSeconds": "5"},
            "json: cannot unmarshal string into Go struct field CronJobSpec.spec.startingDeadlineSeconds of type int64",
            id="number",
        ),
        pytest.param(
            {"schedule": 5},
            "json: cannot unmarshal number into Go struct field CronJobSpec.spec.schedule of type string",
            id="schedule",
        ),
        pytest.param(
            {"jobTemplate": {"spec": {"parallelism": "3"}}},
            "json: cannot unmarshal string into Go struct field "
            "JobSpec.spec.jobTemplate.spec.parallelism of type int32",
            id="in-the-template",
        ),
    ],
)
def test_wrong_type_is_no_cron_job_at_all(change: Any, text: str) -> None:
    # BA 15.B
    with pytest.raises(UndecodableError) as caught:
        CRON_JOBS.default(cronjob(**change))
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")
    assert str(caught.value) == f'CronJob in version "v1" cannot be handled as a CronJob: {text}'
