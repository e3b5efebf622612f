import json
import sys

import pytest

from kcr.api.batch import Job
from kcr.api.codec import WatchEvent
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.api.unstructured import unstructured
from kcr.client.decoding import Refused, error_from, read_event, read_page, retry_after
from kcr.errors import ApiError, GoneError
from tests.unit.client.scripted import events

GOOD = {"metadata": {"name": "good", "namespace": "default", "uid": "1", "resourceVersion": "5"}}
BAD = {**GOOD, "metadata": {**GOOD["metadata"], "name": "bad"}, "status": {"phase": 7}}


def test_bad_object_in_a_page_does_not_hide_the_others() -> None:
    # ST-6.
    page = read_page(Pod, json.dumps({"metadata": {"resourceVersion": "9"}, "items": [GOOD, BAD, GOOD]}).encode())
    assert [pod.metadata.name for pod in page.objects] == ["good", "good"]
    assert page.metadata.resource_version == "9"
    (refused,) = page.refused
    assert refused.key == Key("default", "bad")
    assert "$.status.phase" in refused.why


def test_page_that_is_no_list_is_an_error() -> None:
    with pytest.raises(ApiError, match="does not fit"):
        read_page(Pod, b'{"items": 5}')
    with pytest.raises(ApiError, match="does not fit"):
        read_page(Pod, b"<html>")


def test_bad_object_in_an_event_is_named() -> None:
    event = read_event(Pod, events(("MODIFIED", BAD)))
    assert isinstance(event, Refused)
    assert (event.type, event.key, event.metadata.resource_version) == ("MODIFIED", Key("default", "bad"), "5")


def test_deleted_event_needs_no_more_than_metadata() -> None:
    event = read_event(Pod, events(("DELETED", BAD)))
    assert isinstance(event, WatchEvent)
    assert (event.object.key, event.object.metadata.uid) == (Key("default", "bad"), "1")


@pytest.mark.parametrize("kind", [Pod, Job])
def test_error_event_is_looked_at_as_status(kind: type[Pod] | type[Job]) -> None:
    # ST-8.
    status = {"kind": "Status", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410, "message": "m"}
    with pytest.raises(GoneError, match="m"):
        read_event(kind, events(("ERROR", status)))


def test_error_event_without_status_is_not_taken_for_an_object() -> None:
    with pytest.raises(ApiError):
        read_event(Pod, events(("ERROR", {})))


def test_job_of_an_event_owns_its_template() -> None:
    # ST-7.
    line = events(("ADDED", {**GOOD, "spec": {"template": {"a": "b" * 5000}}, "status": {}}))
    references = sys.getrefcount(line)
    event = read_event(Job, line)
    assert isinstance(event, WatchEvent)
    assert len(event.object.spec.template) > 5000
    assert sys.getrefcount(line) == references


def test_status_seconds_stand_in_for_the_header() -> None:
    body = json.dumps({"code": 429, "message": "m", "details": {"retryAfterSeconds": 3}}).encode()
    assert error_from(429, {}, body).retry_after_seconds == 3
    assert error_from(429, {"retry-after": "7"}, body).retry_after_seconds == 7


def test_retry_after_with_a_date_says_nothing() -> None:
    assert retry_after({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}) == 0


def test_bad_metadata_of_an_untyped_object_is_set_apart() -> None:
    # ST-6, ST-10.
    kind = unstructured("example.dev/v1", "Widget", plural="widgets")
    page = read_page(kind, b'{"items":[{"metadata":{"name":5}},{"metadata":{"name":"b"},"spec":{}}]}')
    assert [obj.metadata.name for obj in page.objects] == ["b"]
    assert "metadata: " in page.refused[0].why
    event = read_event(kind, b'{"type":"ADDED","object":{"metadata":{"name":"a","labels":[]},"spec":{}}}')
    assert isinstance(event, Refused)
