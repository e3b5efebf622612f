"""ConversionReviews: the answers of conversion webhooks that are used, and those that are refused.

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go;
test/integration/conversion/conversion_test.go, expectConversionFailureMessage.
"""

from typing import Any

import pytest

from kcr_devcluster.apiserver.admission.caller import NoCaller
from tests.kit.api import Api
from tests.kit.conversion_webhooks import V1, V2, install, replace_webhook, v1, v2
from tests.kit.custom_resources import DEFINITIONS, Json

pytestmark = pytest.mark.kcr_virtual
FAILED = "conversion webhook for ex.io/v1, Kind=Widget failed: "
MORE = "but did not return more information"
RETURNED = "conversion webhook for ex.io/v1, Kind=Widget returned "


def _set(**members: Any) -> Any:
    def change(review: Json) -> Json:
        review["response"] |= members
        return review

    return change


def _in_object(change: Any) -> Any:
    def changed(review: Json) -> Json:
        for one in review["response"]["convertedObjects"]:
            change(one)
        return review

    return changed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            _set(result={"status": "Failure", "message": "custom webhook conversion error"}),
            f"{FAILED}custom webhook conversion error", id="failure",
        ),
        pytest.param(
            _set(result={"status": "Failure"}), f"{FAILED}response.result.status was 'Failure', not 'Success'",
            id="failure-without-message",
        ),
        pytest.param(_set(convertedObjects=[]), f"{RETURNED}0 objects, expected 1", id="empty"),
        pytest.param(lambda review: {**review, "response": None}, f"{FAILED}no response provided", id="no-response"),
        pytest.param(
            lambda review: {**review, "apiVersion": "apiextensions.k8s.io/v1beta1"},
            f"{FAILED}expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, "
            "got apiextensions.k8s.io/v1beta1, Kind=ConversionReview", id="other-version",
        ),
        pytest.param(
            _in_object(lambda one: one["metadata"].update(name="x")),
            f"{RETURNED}invalid object: must have the same name: w != x", id="name",
        ),
        pytest.param(
            _in_object(lambda one: one["metadata"].update(namespace="x")),
            f"{RETURNED}invalid object: must have the same namespace: default != x", id="namespace",
        ),
        pytest.param(
            _in_object(lambda one: one.update(apiVersion="ex.io/v3")),
            f"{RETURNED}invalid object at index 0: invalid groupVersion (expected ex.io/v2, received ex.io/v3)",
            id="version",
        ),
        pytest.param(
            _in_object(lambda one: one.update(kind="Gadget")),
            f"{RETURNED}invalid object at index 0: invalid kind (expected Widget, received Gadget)", id="kind",
        ),
        pytest.param(
            _in_object(lambda one: one["metadata"].update(labels={"a": 1})),
            f"{RETURNED}invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object",
            id="label-type",
        ),
        pytest.param(
            _in_object(lambda one: one["metadata"].update(annotations=[])),
            f"{RETURNED}invalid metadata: invalid metadata.annotations of type []interface {{}} in converted object",
            id="annotations-type",
        ),
        pytest.param(
            lambda review: b"<html>",
            f"{FAILED}couldn't get version/kind; json parse error: "
            "invalid character '<' looking for beginning of value", id="no-json",
        ),
        pytest.param(lambda review: b"{}", f"{FAILED}Object 'Kind' is missing in '{{}}'", id="no-kind"),
    ],
)  # fmt: skip
async def test_answers_that_cannot_be_used_fail_the_read(api: Api, change: Any, message: str) -> None:
    converter = await install(api)
    await api.post(V1, v1("w"))
    converter.change = change
    reply = await api.call("GET", f"{V2}/w")
    assert (reply.status, reply.body["message"]) == (500, message)
    assert "reason" not in reply.body


async def test_uid_must_be_echoed(api: Api) -> None:
    converter = await install(api)
    await api.post(V1, v1("w"))
    converter.change = _set(uid="x")
    message = (await api.call("GET", f"{V2}/w")).body["message"]
    assert message == f'{FAILED}expected response.uid="{converter.reviews[-1]["uid"]}", got "x"'


@pytest.mark.parametrize(
    ("status", "message"),
    [
        pytest.param(400, "the server rejected our request for an unknown reason", id="400"),
        pytest.param(404, "the server could not find the requested resource", id="404"),
        pytest.param(500, 'an error on the server ("broken") has prevented the request from succeeding', id="500"),
        pytest.param(503, "the server is currently unable to handle the request", id="503"),
        pytest.param(302, f"the server responded with the status code 302 {MORE}", id="302"),
    ],
)
async def test_http_errors_are_told_as_client_go_does(api: Api, status: int, message: str) -> None:
    converter = await install(api)
    await api.post(V1, v1("w"))
    converter.status, converter.change = status, lambda review: b"broken"
    assert (await api.call("GET", f"{V2}/w")).body["message"] == FAILED + message


@pytest.mark.parametrize(
    ("verb", "part"),
    [
        *((verb, "") for verb in ("get", "list", "create", "put", "patch", "apply", "delete", "deletecollection")),
        *((verb, part) for verb in ("get", "put", "patch", "apply") for part in ("/status", "/scale")),
    ],
)
async def test_failing_webhook_fails_every_verb_and_changes_nothing(api: Api, verb: str, part: str) -> None:
    converter = await install(api)
    made = await api.post(V1, v1("w", {"host": "a", "port": 1, "replicas": 1}))
    converter.change = _set(result={"status": "Failure", "message": "no"})
    body: Json = {**v2("w"), "metadata": made["metadata"]}
    applied = v2("w", {"size": 3})
    if part == "/scale":
        scale: Json = {"apiVersion": "autoscaling/v1", "kind": "Scale"}
        applied = {**scale, "metadata": {"name": "w"}, "spec": {"replicas": 2}}
        body = applied
    match verb:
        case "get":
            reply = await api.call("GET", f"{V2}/w{part}")
        case "list":
            reply = await api.call("GET", V2)
        case "create":
            reply = await api.call("POST", V2, v2("x"))
        case "put":
            reply = await api.call("PUT", f"{V2}/w{part}", body)
        case "patch":
            steps = {"metadata": {"annotations": {"a": "b"}}}
            reply = await api.call("PATCH", f"{V2}/w{part}", steps, content_type="application/merge-patch+json")
        case "apply":
            reply = await api.apply(f"{V2}/w{part}", applied)
        case "delete":
            reply = await api.call("DELETE", f"{V2}/w")
        case _:
            reply = await api.call("DELETE", V2)
    version = "v2" if verb == "create" else "v1"
    assert reply.status == 500, reply.body
    assert reply.body["message"] == f"conversion webhook for ex.io/{version}, Kind=Widget failed: no"
    assert (await api.get(V1))["items"] == [made]


async def test_webhook_may_change_labels_and_annotations_only(api: Api) -> None:
    converter = await install(api)

    def meddle(one: Json) -> None:
        one["metadata"] |= {
            "labels": {"from": "x"}, "annotations": {"to": "y"}, "generation": 42, "finalizers": ["foo"],
            "garbage": "z",
        }  # fmt: skip

    made = await api.post(V1, v1("w"))
    converter.change = _in_object(meddle)
    found = (await api.get(f"{V2}/w"))["metadata"]
    assert found == {**made["metadata"], "labels": {"from": "x"}, "annotations": {"to": "y"}}
    assert (await api.get(f"{V1}/w"))["metadata"] == made["metadata"]


async def test_converted_objects_are_pruned_and_get_no_defaults(api: Api) -> None:
    converter = await install(api)
    await api.post(V1, v1("w"))
    converter.change = _in_object(lambda one: one.update(more=1, spec={**one["spec"], "unknown": 2}))
    found = await api.get(f"{V2}/w")
    assert (found["spec"], "more" in found) == ({"address": "a:1"}, False)


async def test_no_caller_is_told(api: Api) -> None:
    converter = await install(api)
    await api.post(V1, v1("w"))
    replace_webhook(api, None)
    api.server.admission.caller.fallback = NoCaller()
    message = (await api.call("GET", f"{V2}/w")).body["message"]
    url = "https://converter.default.svc:443/convert?timeout=30s"
    assert message == f'{FAILED}Post "{url}": this server has no connections to webhooks'
    assert converter.reviews == []


async def test_older_reviews_are_sent_where_they_are_preferred(api: Api) -> None:
    converter = await install(api)
    await api.post(V1, v1("w"))
    path, versions = f"{DEFINITIONS}/widgets.ex.io", {"conversionReviewVersions": ["v0", "v1beta1", "v1"]}
    await api.patch(path, {"spec": {"conversion": {"webhook": versions}}})
    converter.change = _set(uid="")
    assert (await api.get(f"{V2}/w"))["spec"] == {"address": "a:1"}
    await api.patch(path, {"spec": {"conversion": {"webhook": {"conversionReviewVersions": ["v0"]}}}})
    assert (await api.call("GET", f"{V2}/w")).body["message"] == "no supported conversion review versions"


async def test_calls_are_counted(api: Api) -> None:
    converter = await install(api)
    await api.post(V1, v1("w"))
    assert b"apiserver_crd_conversion_webhook" not in (await api.call("GET", "/metrics")).body
    await api.get(f"{V2}/w")
    converter.status = 500
    await api.call("GET", f"{V2}/w")
    lines = (await api.call("GET", "/metrics")).body.decode().splitlines()
    name, labels = (
        "apiserver_crd_conversion_webhook_duration_seconds_count",
        'crd_name="widgets.ex.io",from_version="v1"',
    )
    for succeeded in ("true", "false"):
        assert f'{name}{{{labels},succeeded="{succeeded}",to_version="v2"}} 1.0' in lines
