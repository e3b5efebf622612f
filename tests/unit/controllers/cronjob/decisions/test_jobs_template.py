from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import msgspec
import pytest

from kcr.api import codec
from kcr.controllers.cronjob.decisions.jobs import SCHEDULED_AT, job_name, job_of, run_of
from tests.kit.cronjob_builders import TEMPLATE, cron, job
from tests.kit.cronjob_harness import at

TEN = at("10:00:00")


def test_job_is_named_after_the_minute_of_its_run() -> None:
    assert job_name(cron(), TEN) == "hello-29671800"
    assert job_name(cron(), at("10:00:59")) == "hello-29671800"
    assert job_name(cron(), datetime(1970, 1, 1, 0, 1, tzinfo=UTC)) == "hello-1"


def test_job_has_the_labels_and_annotations_of_its_template() -> None:
    made = job_of(cron(), TEN, None).metadata
    assert made.labels == {"a": "b"}
    assert made.annotations == {"x": "y", SCHEDULED_AT: "2026-06-01T10:00:00Z"}
    assert (made.namespace, made.creation_timestamp) == ("default", TEN)


def test_job_belongs_to_its_cronjob_alone() -> None:
    (owner,) = job_of(cron(), TEN, None).metadata.owner_references
    assert (owner.api_version, owner.kind, owner.name, owner.uid) == ("batch/v1", "CronJob", "hello", "cj-uid")
    assert (owner.controller, owner.block_owner_deletion) == (True, True)


def test_everything_else_in_the_template_is_dropped_or_carried_whole() -> None:
    metadata = {
        "name": "n", "generateName": "g-", "finalizers": ["a/b"], "labels": {"a": "b"},
        "annotations": {SCHEDULED_AT: "never"}, "ownerReferences": [{"kind": "X", "name": "x", "uid": "1"}],
    }  # fmt: skip
    spec = {"template": {"spec": {"unknownToUs": [1, {"a": None}]}}, "completions": 0}
    what = cron(job_template=msgspec.Raw(msgspec.json.encode({"metadata": metadata, "spec": spec})))
    sent = msgspec.json.decode(codec.encode(job_of(what, TEN, None)))
    assert sent["spec"] == spec
    assert sent["metadata"] == {
        "name": "hello-29671800",
        "namespace": "default",
        "creationTimestamp": "2026-06-01T10:00:00Z",
        "labels": {"a": "b"},
        "annotations": {SCHEDULED_AT: "2026-06-01T10:00:00Z"},
        "ownerReferences": [
            {
                "apiVersion": "batch/v1", "kind": "CronJob", "name": "hello", "uid": "cj-uid",
                "controller": True, "blockOwnerDeletion": True,
            }
        ],
    }  # fmt: skip


def test_template_without_metadata_is_enough() -> None:
    what = cron(job_template=msgspec.Raw(msgspec.json.encode({"spec": TEMPLATE["spec"]})))
    assert job_of(what, TEN, None).metadata.labels == {}


@pytest.mark.parametrize(
    ("run", "zone", "text"),
    [
        pytest.param(TEN, None, "2026-06-01T10:00:00Z", id="no-zone"),
        pytest.param(TEN, ZoneInfo("America/New_York"), "2026-06-01T06:00:00-04:00", id="west"),
        pytest.param(TEN, ZoneInfo("Europe/Rome"), "2026-06-01T12:00:00+02:00", id="east"),
        pytest.param(TEN, ZoneInfo("Asia/Kathmandu"), "2026-06-01T15:45:00+05:45", id="quarters"),
        pytest.param(
            at("06:30:00", "2026-11-01"), ZoneInfo("America/New_York"), "2026-11-01T01:30:00-05:00", id="hour-twice"
        ),
        pytest.param(at("12:00:00", "2026-01-10"), ZoneInfo("Europe/London"), "2026-01-10T12:00:00Z", id="winter"),
    ],
)
def test_annotation_tells_the_moment_in_the_zone(run: datetime, zone: tzinfo | None, text: str) -> None:
    assert job_of(cron(), run, zone).metadata.annotations[SCHEDULED_AT] == text


def test_run_is_read_back_from_its_job() -> None:
    made = job("hello-29671800", run=TEN.astimezone(ZoneInfo("Europe/Rome")))
    assert run_of(cron(), made) == TEN
    assert run_of(cron(), job("hello-29671800")) is None
