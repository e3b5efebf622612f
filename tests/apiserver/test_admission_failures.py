"""Webhooks that fail, time out, or break the protocol; warnings; reinvocation.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go;
pkg/admission/plugin/webhook/request/admissionreview_test.go; pkg/endpoints/filters/warning_test.go.
"""

import asyncio
import base64
from random import Random
from typing import Any

import pytest

from kcr.clock import SystemClock
from kcr.testing import VirtualClock
from kcr_devcluster.apiserver.admission.caller import NoClientError, WebhookCallError
from kcr_devcluster.apiserver.kinds.catalogue import VALIDATING_WEBHOOKS
from kcr_devcluster.apiserver.server import APIServer
from kcr_devcluster.apiserver.storage.storage import Storage
from tests.kit.api import Api, pod
from tests.kit.webhooks import Webhooks, denied, json_patch

pytestmark = pytest.mark.kcr_virtual
PODS = "/api/v1/namespaces/default/pods"
UID = "00000000-0000-0000-0000-000000000000"
CALL, INVALID = "failed to call webhook: ", "received invalid webhook response: "
PREFIX = 'Internal error occurred: failed calling webhook "one.example.com": '
V1 = "admission.k8s.io/v1, Kind=AdmissionReview"


def annotated(name: str) -> dict[str, Any]:
    """Return a patch that counts a webhook in the annotations of a pod that has some."""
    return json_patch({"op": "add", "path": f"/metadata/annotations/{name}", "value": "x"})


def noted_pod(**fields: Any) -> dict[str, Any]:
    made = pod("pa", **fields)
    made["metadata"]["annotations"] = {"a": "b"}
    return made


BROKEN: dict[str, tuple[Any, str]] = {
    "404": ((404, b"404 page not found"), f"{CALL}the server could not find the requested resource"),
    "500": (
        (500, b"oh no\n"), f'{CALL}an error on the server ("oh no") has prevented the request from succeeding'
    ),
    "400": ((400, b""), f"{CALL}the server rejected our request for an unknown reason"),
    "status": ((403, b'{"kind":"Status","status":"Failure","message":"not you"}'), f"{CALL}not you"),
    "no-response": ((200, b'{"response":null}'), f"{INVALID}webhook response was absent"),
    "uid": ({"uid": "x"}, f'{INVALID}expected response.uid="UID", got "x"'),
    "patch": (
        {"patch": "W10=", "patchType": "JSONPatch"}, f"{INVALID}validating webhook may not return response.patch"
    ),
    "patch-type": (
        {"patchType": "JSONPatch"}, f"{INVALID}validating webhook may not return response.patchType"
    ),
}  # fmt: skip


async def _unreadable_authority(path: str, body: bytes, seconds: float) -> tuple[int, bytes]:
    raise NoClientError("unable to load root certificates: unable to parse bytes as PEM block")


async def test_webhook_without_a_readable_authority_is_not_called(api: Api, webhooks: Webhooks) -> None:
    await webhooks.add("Validating", "one")
    webhooks.caller.handlers["https://one"] = _unreadable_authority
    reply = await api.call("POST", PODS, pod("pa"))
    words = "could not get REST client: unable to load root certificates: unable to parse bytes as PEM block"
    assert (reply.status, reply.body["message"]) == (500, f"{PREFIX}{words}")


class DefectiveCaller:
    """A caller with a defect."""

    async def call(self, client_config: dict[str, Any], body: bytes, seconds: float) -> tuple[int, bytes]:
        raise LookupError("no such thing")


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
async def test_defect_of_the_server_is_named(api: Api, webhooks: Webhooks, kind: str) -> None:
    await webhooks.add(kind, "one")
    webhooks.caller.handlers.clear()
    webhooks.caller.fallback = DefectiveCaller()
    reply = await api.call("POST", PODS, pod("pa"))
    assert (reply.status, reply.body["message"]) == (500, "Internal error occurred: LookupError: no such thing")


@pytest.mark.parametrize(("answer", "message"), BROKEN.values(), ids=BROKEN)
async def test_broken_response_is_an_internal_error(api: Api, webhooks: Webhooks, answer: Any, message: str) -> None:
    await webhooks.add("Validating", "one", lambda request: answer)
    reply = await api.call("POST", PODS, pod("pa"))
    uid = webhooks.requests["one"][0]["uid"]
    assert (reply.status, reply.body["reason"]) == (500, "InternalError")
    assert reply.body["message"] == PREFIX + message.replace("UID", uid)


@pytest.mark.parametrize(
    ("response", "status"),
    [
        # As controller-runtime sends them.
        pytest.param({"allowed": True, "status": {"metadata": {}, "code": 200}}, 201, id="allowed"),
        pytest.param(
            {"allowed": False, "status": {"metadata": {}, "message": "no", "reason": "Forbidden", "code": 403}}, 403,
            id="denied",
        ),
        # Members that are null are as if they were absent.
        pytest.param({"allowed": True, "patch": None, "patchType": None, "warnings": None}, 201, id="null"),
        pytest.param({"allowed": None, "status": {"message": None, "code": None, "details": None}}, 400, id="nulls"),
        pytest.param({"allowed": True, "warnings": [None, "careful"]}, 201, id="null-warning"),
        # No code of HTTP: upstream's connection ends in a panic.
        pytest.param({"allowed": False, "status": {"code": 100_000}}, 999, id="code"),
    ],
)  # fmt: skip
async def test_response_of_a_go_program_is_understood(
    api: Api, webhooks: Webhooks, response: dict[str, Any], status: int
) -> None:
    await webhooks.add("Validating", "one", lambda request: response)
    assert (await api.call("POST", PODS, pod("pa"))).status == status


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b"<html>", "couldn't get version/kind; json parse error: ", id="html"),
        pytest.param(b'{"response":{"allowed":"yes"}}', "json: cannot unmarshal: ", id="type"),
        pytest.param(b"[" * 100_000, "", id="deep"),
        pytest.param(b"", "0-length response with status code: 200 and content type: application/json", id="empty"),
        pytest.param(b'{"kind":"Pod"}', 'no kind "Pod" is registered for version "admission.k8s.io/v1"', id="kind"),
        pytest.param(b"\xff\xfe", "couldn't get version/kind; json parse error: ", id="no-text"),
    ],
)
async def test_body_that_is_no_review_is_an_internal_error(
    api: Api, webhooks: Webhooks, body: bytes, message: str
) -> None:
    await webhooks.add("Validating", "one", lambda request: (200, body))
    reply = await api.call("POST", PODS, pod("pa"))
    assert (reply.status, reply.body["reason"]) == (500, "InternalError")
    assert reply.body["message"].startswith(f"{PREFIX}failed to call webhook: {message}")


async def test_response_without_type_is_refused(api: Api, webhooks: Webhooks) -> None:
    def answer(request: dict[str, Any]) -> tuple[int, bytes]:
        return 200, b'{"response":{"allowed":true,"uid":"%s"}}' % request["uid"].encode()

    await webhooks.add("Validating", "one", answer)
    reply = await api.call("POST", PODS, pod("pa"))
    expected = f"received invalid webhook response: expected webhook response of {V1}, got /, Kind="
    assert reply.body["message"] == PREFIX + expected


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param({"patch": "W10="}, "webhook returned response.patch but not response.patchType", id="no-type"),
        pytest.param(
            {"patchType": "JSONPatch"}, "webhook returned response.patchType but not response.patch", id="no-patch"
        ),
    ],
)  # fmt: skip
async def test_mutating_response_has_patch_and_type(api: Api, webhooks: Webhooks, answer: Any, message: str) -> None:
    await webhooks.add("Mutating", "one", lambda request: answer)
    reply = await api.call("POST", PODS, pod("pa"))
    assert reply.body["message"] == f"{PREFIX}received invalid webhook response: {message}"


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        pytest.param(
            [{"op": "add", "path": "/nope/x", "value": 1}],
            'add operation does not apply: doc is missing path: "/nope/x": missing value',
            id="path",
        ),
        pytest.param([{"op": "add", "path": "/spec/containers", "value": 1}], None, id="type"),
        pytest.param([{"op": "add", "path": "/spec", "value": []}], None, id="spec"),
    ],
)
async def test_patch_that_does_not_apply_is_an_internal_error(
    api: Api, webhooks: Webhooks, operations: Any, message: str | None
) -> None:
    await webhooks.add("Mutating", "one", lambda request: json_patch(*operations))
    reply = await api.call("POST", PODS, pod("pa"))
    assert (reply.status, reply.body["reason"]) == (500, "InternalError")
    assert message is None or reply.body["message"] == f"Internal error occurred: {message}"


async def test_patch_is_no_list(api: Api, webhooks: Webhooks) -> None:
    text = base64.b64encode(b"{}").decode()
    await webhooks.add("Mutating", "one", lambda request: {"patch": text, "patchType": "JSONPatch"})
    reply = await api.call("POST", PODS, pod("pa"))
    words = "received undecodable patch in webhook response: json: cannot unmarshal object into Go value of type "
    assert (reply.status, reply.body["message"]) == (500, f"{PREFIX}{words}jsonpatch.Patch")


async def test_undecodable_patch_is_a_failure_that_may_be_ignored(api: Api, webhooks: Webhooks) -> None:
    text = base64.b64encode(b"{}").decode()
    answer = {"patch": text, "patchType": "JSONPatch"}
    await webhooks.add("Mutating", "one", lambda request: answer, failurePolicy="Ignore")
    assert (await api.call("POST", PODS, pod("pa"))).status == 201


async def test_webhook_cannot_change_a_deleted_object(api: Api, webhooks: Webhooks) -> None:
    await api.post(PODS, noted_pod())
    await webhooks.add("Mutating", "one", lambda request: annotated("n"))
    reply = await api.call("DELETE", f"{PODS}/pa")
    words = "attempted to modify the object, which is not supported for this operation"
    expected = f'Internal error occurred: admission webhook "one.example.com" {words}'
    assert (reply.status, reply.body["message"]) == (500, expected)


async def test_unreachable_webhook_is_named_with_its_address(api: Api, webhooks: Webhooks) -> None:
    def answer(request: dict[str, Any]) -> Any:
        raise WebhookCallError("dial tcp 127.0.0.1:9443: connect: connection refused")

    service = {"namespace": "shop", "name": "hooks", "path": "/validate", "port": 8443}
    await webhooks.add("Validating", "one", clientConfig={"service": service}, timeoutSeconds=3)
    webhooks.caller.handlers["shop/hooks"] = webhooks.handler("one", answer)
    reply = await api.call("POST", PODS, pod("pa"))
    assert reply.body["message"] == (
        f'{PREFIX}failed to call webhook: Post "https://hooks.shop.svc:8443/validate?timeout=3s": '
        "dial tcp 127.0.0.1:9443: connect: connection refused"
    )


async def test_ignored_failure_lets_the_request_pass(api: Api, webhooks: Webhooks) -> None:
    await webhooks.add("Validating", "one", lambda request: (500, b""), failurePolicy="Ignore")
    await webhooks.add("Mutating", "two", lambda request: (500, b""), failurePolicy="Ignore")
    await api.post(PODS, pod("pa"))
    assert len(webhooks.requests["one"]) == len(webhooks.requests["two"]) == 1


async def test_slow_webhook_ends_at_its_deadline(api: Api, webhooks: Webhooks, kcr_clock: VirtualClock) -> None:
    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    await webhooks.add("Validating", "one", answer, timeoutSeconds=2)
    started = kcr_clock.now()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(api.call("POST", PODS, pod("pa")))
        await kcr_clock.advance(1.9)
        assert not task.done()
        await kcr_clock.advance(0.2)
    assert (kcr_clock.now() - started).total_seconds() < 2.2
    expected = 'failed to call webhook: Post "https://one/review?timeout=2s": context deadline exceeded'
    assert (task.result().status, task.result().body["message"]) == (500, PREFIX + expected)


async def test_request_with_a_timeout_ends_before_its_webhooks(
    api: Api, webhooks: Webhooks, kcr_clock: VirtualClock
) -> None:
    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    await webhooks.add("Validating", "one", answer)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(api.call("POST", f"{PODS}?timeout=1s", pod("pa")))
        await kcr_clock.advance(1.1)
    assert task.result().status == 504
    assert (await api.call("GET", f"{PODS}/pa")).status == 404


async def test_validating_webhooks_are_called_at_once(api: Api, webhooks: Webhooks, kcr_clock: VirtualClock) -> None:
    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(1)
        return {}

    for name in ("one", "two", "three"):
        await webhooks.add("Validating", name, answer)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(api.call("POST", PODS, pod("pa")))
        await kcr_clock.advance(1.1)
    assert task.result().status == 201


async def test_first_denial_in_the_order_of_webhooks_is_the_answer(api: Api, webhooks: Webhooks) -> None:
    async def slow(request: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return denied("slow")

    await webhooks.add("Validating", "aa", slow)
    await webhooks.add("Validating", "bb", lambda request: denied("fast"))
    reply = await api.call("POST", PODS, pod("pa"))
    assert reply.body["message"] == 'admission webhook "aa.example.com" denied the request: slow'
    assert len(webhooks.requests["bb"]) == 1


async def test_dry_run_is_refused_where_a_webhook_has_effects(api: Api, webhooks: Webhooks) -> None:
    webhook = webhooks.webhook("one", failurePolicy="Ignore")
    # The API takes no such webhook in v1; objects of older versions may have it.
    manifest = {"metadata": {"name": "one", "uid": UID}, "webhooks": [{**webhook, "sideEffects": "Some"}]}
    api.server.registry.storage.put(VALIDATING_WEBHOOKS, manifest, None)
    reply = await api.call("POST", f"{PODS}?dryRun=All", pod("pa"))
    expected = 'admission webhook "one.example.com" does not support dry run'
    assert (reply.status, reply.body["reason"], reply.body["message"]) == (400, "BadRequest", expected)
    assert webhooks.requests["one"] == []
    await api.post(PODS, pod("pa"))


async def test_warnings_are_sent_once_each(api: Api, webhooks: Webhooks) -> None:
    await webhooks.add("Mutating", "one", lambda request: {"warnings": ["first", 'a "quoted" one']})
    await webhooks.add("Validating", "two", lambda request: {**denied("no"), "warnings": ["second", "first"]})
    reply = await api.call("POST", PODS, pod("pa"))
    assert reply.status == 400
    assert reply.headers["Warning"] == r'299 - "first", 299 - "a \"quoted\" one", 299 - "second"'


async def test_long_warnings_are_cut(api: Api, webhooks: Webhooks) -> None:
    texts = [f"{number:02}{'x' * 998}" for number in range(20)]
    await webhooks.add("Validating", "one", lambda request: {"warnings": texts})
    reply = await api.call("POST", PODS, pod("pa"))
    assert reply.status == 201
    # 16 of 256 characters fill the 4,096.
    assert reply.headers["Warning"] == ", ".join(f'299 - "{text[:256]}"' for text in texts[:16])


async def test_earlier_webhook_is_reinvoked_if_needed(api: Api, webhooks: Webhooks) -> None:
    def first(request: dict[str, Any]) -> dict[str, Any]:
        notes = request["object"]["metadata"]["annotations"]
        return annotated("first" if "first" not in notes else "again")

    await webhooks.add("Mutating", "aa", first, reinvocationPolicy="IfNeeded")
    await webhooks.add("Mutating", "bb", lambda request: {}, reinvocationPolicy="IfNeeded")
    await webhooks.add("Mutating", "cc", lambda request: annotated("third"), reinvocationPolicy="IfNeeded")
    await webhooks.add("Mutating", "dd", lambda request: {}, reinvocationPolicy="Never")
    made = await api.post(PODS, noted_pod())
    assert set(made["metadata"]["annotations"]) == {"a", "first", "third", "again"}
    calls = {name: len(requests) for name, requests in webhooks.requests.items()}
    # The third is behind a change in the second round as well.
    assert calls == {"aa": 2, "bb": 2, "cc": 2, "dd": 1}


async def test_webhook_that_changes_nothing_starts_no_second_round(api: Api, webhooks: Webhooks) -> None:
    replace = json_patch({"op": "replace", "path": "/metadata/annotations/a", "value": "b"})
    await webhooks.add("Mutating", "aa", reinvocationPolicy="IfNeeded")
    await webhooks.add("Mutating", "bb", lambda request: replace)
    await api.post(PODS, noted_pod())
    assert len(webhooks.requests["aa"]) == 1


async def test_patched_object_has_its_defaults_for_the_next_webhook(api: Api, webhooks: Webhooks) -> None:
    sidecar = {"op": "add", "path": "/spec/containers/-", "value": {"name": "side", "image": "proxy"}}
    await webhooks.add("Mutating", "aa", lambda request: json_patch(sidecar))
    await webhooks.add("Mutating", "bb")
    await api.post(PODS, pod("pa"))
    (request,) = webhooks.requests["bb"]
    side = request["object"]["spec"]["containers"][1]
    assert (side["imagePullPolicy"], side["terminationMessagePolicy"]) == ("Always", "File")


async def test_injected_container_gets_the_token_of_the_account() -> None:
    api = Api(APIServer(Storage(), clock=SystemClock(), random=Random(0), accounts="tokens"))
    webhooks = Webhooks(api)
    await api.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    sidecar = {"op": "add", "path": "/spec/containers/-", "value": {"name": "side", "image": "proxy"}}
    await webhooks.add("Mutating", "aa", lambda request: json_patch(sidecar))
    await webhooks.add("Validating", "bb")
    made = await api.post(PODS, pod("pa"))
    mounts = [[mount["name"] for mount in one["volumeMounts"]] for one in made["spec"]["containers"]]
    (volume,) = made["spec"]["volumes"]
    assert mounts == [[volume["name"]]] * 2
    # One volume was drawn, in all attempts the same.
    assert len(webhooks.requests["aa"]) == len(webhooks.requests["bb"]) == 1


async def test_review_of_version_v1beta1_needs_no_uid(api: Api, webhooks: Webhooks) -> None:
    await webhooks.add("Validating", "one", lambda request: {"uid": ""}, admissionReviewVersions=["v9", "v1beta1"])
    await api.post(PODS, pod("pa"))


async def test_webhook_cannot_rename_a_stored_object(api: Api, webhooks: Webhooks) -> None:
    await api.post(PODS, noted_pod())
    rename = json_patch({"op": "replace", "path": "/metadata/name", "value": "pb"})
    await webhooks.add("Mutating", "one", lambda request: rename)
    reply = await api.call(
        "PATCH", f"{PODS}/pa", {"metadata": {"labels": {"x": "y"}}}, content_type="application/merge-patch+json"
    )
    assert (reply.status, reply.body["details"]["causes"][0]["field"]) == (422, "metadata.name")
