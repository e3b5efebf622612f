import json
import sys
from collections.abc import Mapping

import pytest

import kcr
from kcr.api.batch import Job
from kcr.api.codec import WatchEvent
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.api.unstructured import unstructured
from kcr.client.wire.decoding import Undecodable, error_from, read_event, read_object, read_page, retry_after
from kcr.errors import ApiError, GoneError, TransportError
from tests.kit.scripted_transport import events


class Website(kcr.Resource, api_version="example.dev/v1", plural="websites"):
    spec: Mapping[str, object] = {}


class Spoilsport(kcr.Resource, api_version="example.dev/v1", plural="spoilsports"):
    size: int = 0
    status: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        if self.size == 13:
            raise KeyError("size")


GOOD = {"metadata": {"name": "good", "namespace": "default", "uid": "1", "resourceVersion": "5"}}
BAD = {**GOOD, "metadata": {**GOOD["metadata"], "name": "bad"}, "status": {"phase": 7}}


def test_bad_object_in_a_page_does_not_hide_the_others() -> None:
    # ST-6.
    page = read_page(Pod, json.dumps({"metadata": {"resourceVersion": "9"}, "items": [GOOD, BAD, GOOD]}).encode())
    assert [pod.metadata.name for pod in page.objects] == ["good", "good"]
    assert page.metadata.resource_version == "9"
    (refused,) = page.undecodable
    assert refused.key == Key("default", "bad")
    assert "$.status.phase" in refused.why


def test_page_that_is_no_list_is_an_error() -> None:
    for answer in (
        b'{"items": 5}',
        b"<html>",
        b'{"status":"ok"}',
        b'{"metadata":{"resourceVersion":"9"}}',
        b"{}",
        b"[]",
    ):
        with pytest.raises(TransportError, match="does not fit"):
            read_page(Pod, answer)


def test_list_of_nothing_is_a_list() -> None:
    for items in (b"null", b"[]"):
        page = read_page(Pod, b'{"metadata":{"resourceVersion":"9"},"items":%s}' % items)
        assert (page.objects, page.undecodable, page.metadata.resource_version) == ((), (), "9")


def test_bad_object_in_an_event_is_named() -> None:
    event = read_event(Pod, events(("MODIFIED", BAD)))
    assert isinstance(event, Undecodable)
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
    assert "metadata: " in page.undecodable[0].why
    event = read_event(kind, b'{"type":"ADDED","object":{"metadata":{"name":"a","labels":[]},"spec":{}}}')
    assert isinstance(event, Undecodable)


DEPTHS = [900, 1_000, 5_000, 9_900]
KINDS = [Pod, Job, Website, unstructured("example.dev/v1", "Widget", plural="widgets")]


def nested(depth: int, name: str = "deep") -> bytes:
    """An object whose managed fields are nested so deep."""
    levels = depth - 3
    metadata = b'"name":"%s","namespace":"default","uid":"1","resourceVersion":"5"' % name.encode()
    return b'{"metadata":{%s,"managedFields":' % metadata + b'{"f:a":' * levels + b"{}" + b"}" * levels + b"}}"


def listed(*objects: bytes) -> bytes:
    return b'{"metadata":{"resourceVersion":"9"},"items":[%s]}' % b",".join(objects)


def changed(obj: bytes) -> bytes:
    return b'{"type":"MODIFIED","object":%s}' % obj


@pytest.mark.skipif(sys.version_info[:2] == (3, 12), reason="its first releases limit recursion in C to 1,500 levels")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("depth", DEPTHS)
def test_object_nested_as_deep_as_go_reads_is_decoded(kind: type[Pod], depth: int) -> None:
    limit = sys.getrecursionlimit()
    page, event = read_page(kind, listed(nested(depth))), read_event(kind, changed(nested(depth)))
    assert isinstance(event, WatchEvent)
    assert [obj.metadata.name for obj in page.objects] == [event.object.metadata.name] == ["deep"]
    assert read_object(kind, nested(depth)).key == Key("default", "deep")
    assert sys.getrecursionlimit() == limit


UNDECODABLE = [
    pytest.param(
        nested(20_000, "bad"),
        "too deep",
        id="nested-too-deep",
        marks=pytest.mark.skipif(sys.version_info >= (3, 14), reason="it reads ten times as deep"),
    ),
    pytest.param(json.dumps(BAD).encode().replace(b"7", b'"\\ud800 alone"'), "surrogate", id="half-a-pair"),
    pytest.param(json.dumps(BAD).encode().replace(b"7", b'"\\udc00x"'), "surrogate", id="second-half-of-a-pair"),
    pytest.param(json.dumps(BAD).encode().replace(b"7", b'"\xff"'), "Invalid UTF-8", id="no-utf-8"),
    pytest.param(json.dumps(BAD).encode().replace(b'"uid": "1"', b'"uid": "\xff"'), "Invalid UTF-8", id="uid-no-utf-8"),
]


@pytest.mark.parametrize("kind", [Pod, Spoilsport])
@pytest.mark.parametrize(("document", "error"), UNDECODABLE)
def test_object_that_cannot_be_decoded_is_set_apart_and_named(kind: type[Pod], document: bytes, error: str) -> None:
    page = read_page(kind, listed(json.dumps(GOOD).encode(), document, json.dumps(GOOD).encode()))
    assert [obj.metadata.name for obj in page.objects] == ["good", "good"]
    assert page.metadata.resource_version == "9"
    event = read_event(kind, changed(document))
    assert isinstance(event, Undecodable)
    for refused in (*page.undecodable, event):
        assert (refused.key, refused.metadata.resource_version) == (Key("default", "bad"), "5")
        assert error in refused.why
    assert len(page.undecodable) == 1


def test_object_that_a_kinds_own_check_refuses_is_set_apart() -> None:
    page = read_page(Spoilsport, listed(json.dumps(GOOD).encode(), json.dumps({**GOOD, "size": 13}).encode()))
    assert [len(page.objects), len(page.undecodable)] == [1, 1]
    assert "KeyError" in page.undecodable[0].why


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3", 3.0), ("", 0.0), ("-3", 0.0), ("²", 0.0), ("soon", 0.0), ("9" * 5000, 0.0), ("1.5", 0.0)],
)
def test_pause_of_a_header_is_a_number_of_seconds_or_none(text: str, seconds: float) -> None:
    assert retry_after({"retry-after": text}) == seconds
