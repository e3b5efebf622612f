"""Answers to ConversionReviews."""

import asyncio
import json
import re
from typing import Any

import pytest
from msgspec.structs import replace

import kcr
from kcr.errors import BadRequestError
from kcr.serving.webhooks.conversion import Conversions, answer_review


class OldSpec(kcr.Object):
    host: str
    replicas: int = 1


class NewSpec(kcr.Object):
    hosts: tuple[str, ...]
    replicas: int = 1


class Site(kcr.Resource, api_version="example.dev/v1", plural="sites", storage=True):
    spec: NewSpec


class SiteV1Beta1(kcr.Resource, kind="Site", api_version="example.dev/v1beta1", plural="sites"):
    spec: OldSpec


@kcr.converts(SiteV1Beta1, Site)
def to_v1(old: SiteV1Beta1) -> Site:
    if old.spec.host == "bad":
        raise ValueError("no such host")
    if old.spec.host == "raw":
        return Site(metadata=old.metadata, spec=NewSpec(hosts=({1, 2}, object())))  # type: ignore[arg-type]  # a mistake
    labels = {**old.metadata.labels, "host": old.spec.host} if old.spec.host == "labelled" else old.metadata.labels
    metadata = replace(old.metadata, labels=labels)
    return Site(metadata=metadata, spec=NewSpec(hosts=(old.spec.host,), replicas=old.spec.replicas))


@kcr.converts(Site, SiteV1Beta1)
def to_v1beta1(new: Site) -> SiteV1Beta1:
    return SiteV1Beta1(metadata=new.metadata, spec=OldSpec(host=new.spec.hosts[0], replicas=new.spec.replicas))


def made() -> Conversions:
    conversions = Conversions.of(Site)
    assert conversions is not None
    return conversions


KINDS = {("example.dev", "Site"): made()}
METADATA = {
    "name": "a", "namespace": "default", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z",
    "labels": {"app": "web"}, "annotations": {"note": ""},
    "managedFields": [{"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:spec": {}}}],
}  # fmt: skip


def site(host: str = "a.dev", **fields: Any) -> dict[str, Any]:
    spec = {"host": host, "replicas": 3}
    return {"apiVersion": "example.dev/v1beta1", "kind": "Site", "metadata": METADATA, "spec": spec, **fields}


def review(*objects: Any, desired: str = "example.dev/v1", **fields: Any) -> bytes:
    request = {"uid": "7", "desiredAPIVersion": desired, "objects": objects}
    whole = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request, **fields}
    return json.dumps(whole).encode()


def answered(body: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(asyncio.run(answer_review(KINDS, body)))
    assert (found["apiVersion"], found["kind"]) == ("apiextensions.k8s.io/v1", "ConversionReview")
    assert found["response"].pop("uid") == "7"
    return found["response"]  # type: ignore[no-any-return]  # JSON


def test_all_objects_are_converted_with_their_whole_metadata() -> None:
    hub = {"apiVersion": "example.dev/v1", "kind": "Site", "metadata": METADATA, "extra": 1, "spec": {"hosts": ["b"]}}
    response = answered(review(site(), hub))
    assert response["result"] == {"status": "Success"}
    first, second = response["convertedObjects"]
    assert first == {
        "apiVersion": "example.dev/v1", "kind": "Site", "metadata": METADATA,
        "spec": {"hosts": ["a.dev"], "replicas": 3},
    }  # fmt: skip
    assert second == hub, "an object in the desired version is returned as it is"
    (back,) = answered(review(first, desired="example.dev/v1beta1"))["convertedObjects"]
    assert back == site()


def test_changed_labels_are_written_beside_the_rest_of_the_metadata() -> None:
    (converted,) = answered(review(site("labelled")))["convertedObjects"]
    assert converted["metadata"] == {**METADATA, "labels": {"app": "web", "host": "labelled"}}


def test_fields_that_the_class_lacks_are_dropped() -> None:
    (converted,) = answered(review(site(status={"ready": 1})))["convertedObjects"]
    assert "status" not in converted


@pytest.mark.parametrize(
    ("bad", "desired", "message"),
    [
        pytest.param(site("bad"), "example.dev/v1", "ite default/a, to_v1: ValueError: no such host", id="exception"),
        pytest.param(site("raw"), "example.dev/v1", "v1 Site default/a: no JSON: ", id="no-json"),
        pytest.param(
            site(spec={"host": 1}), "example.dev/v1", "v1beta1 Site: Expected `str`, got `int` - at `$.spec.host`",
            id="does-not-fit",
        ),
        pytest.param(
            site(), "example.dev/v2", "Site is converted between v1 and v1beta1, not v2", id="version"
        ),
        pytest.param(
            site(kind="Shop"), "example.dev/v1",
            "no conversion of example.dev/v1beta1 Shop to example.dev/v1 is registered", id="kind",
        ),
        pytest.param(site(), "other.dev/v1", "no conversion of example.dev/v1beta1 Site to other.dev/v1", id="group"),
        pytest.param({"kind": "Site"}, "example.dev/v1", "an object: Object missing required field", id="no-version"),
        pytest.param([], "example.dev/v1", "an object: Expected `object`, got `array`", id="no-object"),
        pytest.param(site(metadata=None), "example.dev/v1", "Site: Expected `object`, got `null`", id="no-metadata"),
    ],
)  # fmt: skip
def test_one_bad_object_fails_the_whole_review(bad: Any, desired: str, message: str) -> None:
    response = answered(review(site(), bad, desired=desired))
    assert response["convertedObjects"] == []
    assert response["result"]["status"] == "Failure"
    assert message in response["result"]["message"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b"", "no ConversionReview: Input data was truncated", id="empty"),
        pytest.param(b"{}", "no ConversionReview: Object missing required field", id="no-fields"),
        pytest.param(b"[" * 100_000, "no ConversionReview: ", id="deep"),
        pytest.param(b'{"apiVersion":"\xff"}', "no ConversionReview: ", id="no-utf-8"),
        pytest.param(review(request=None), "no ConversionReview: Expected `object`, got `null`", id="no-request"),
        pytest.param(
            review(apiVersion="apiextensions.k8s.io/v1beta1"),
            "apiextensions.k8s.io/v1beta1 ConversionReview is not a ConversionReview of apiextensions.k8s.io/v1",
            id="beta",
        ),
        pytest.param(review(kind="AdmissionReview"), "v1 AdmissionReview is not a ConversionReview of", id="admission"),
    ],
)  # fmt: skip
def test_body_that_is_no_review_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(BadRequestError, match=re.escape(message)):
        asyncio.run(answer_review(KINDS, body))


def test_no_objects_are_no_failure() -> None:
    assert answered(review()) == {"convertedObjects": [], "result": {"status": "Success"}}
