"""Patches of webhooks that leave no valid object: the answer is an error, and never a failure of the server.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go,
callAttrMutatingHook.
"""

import base64
import re
from itertools import product
from typing import Any

import msgspec
import pytest

from tests.kit.api import Api, pod
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, definition, version, widget
from tests.kit.webhooks import Webhooks, json_patch

pytestmark = pytest.mark.kcr_virtual
RULE = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["pods", "configmaps", "widgets"]}
MAPS = "/api/v1/namespaces/default/configmaps"
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
PATHS = (
    "/kind", "/apiVersion", "/metadata", "/metadata/name", "/metadata/namespace", "/metadata/labels", "/metadata/uid",
    "/metadata/annotations", "/metadata/finalizers", "/metadata/ownerReferences", "/metadata/resourceVersion",
    "/metadata/creationTimestamp", "/metadata/deletionTimestamp", "/metadata/generateName", "/metadata/managedFields",
    "/spec", "/spec/containers", "/status", "/data",
)  # fmt: skip
VALUES: tuple[Any, ...] = (None, "x", 7, [], [None], {"a": 1}, {"a": None}, [{"a": 1}])
OBJECTS = {
    "pods": ("/api/v1/namespaces/default/pods", pod("oa")),
    "configmaps": ("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "oa"}, "data": {"a": "b"}}),
    "widgets": (WIDGETS, widget("oa", {"a": "b"})),
}
# As the server answers an exception of its own.
BROKEN = re.compile(r"occurred: \w+(Error|Exception|Group)\b")


@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
async def test_any_patch_is_stored_or_refused(api: Api, webhooks: Webhooks, kind: str, operation: str) -> None:
    await api.post(DEFINITIONS, definition(version("v1", OPEN)))
    path, body = OBJECTS[kind]
    changes: list[dict[str, Any]] = [{"op": "add", "path": at, "value": value} for at, value in product(PATHS, VALUES)]
    changes += [{"op": "remove", "path": at} for at in PATHS]
    current: list[dict[str, Any]] = []
    selector = {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}
    await webhooks.add(
        "Mutating", "one", lambda request: json_patch(*current), rules=[{**RULE, "operations": [operation]}]
    )
    await webhooks.add("Mutating", "two", rules=[RULE], objectSelector=selector, reinvocationPolicy="IfNeeded")
    await webhooks.add("Validating", "three", rules=[RULE], objectSelector=selector, namespaceSelector=selector)
    for change in changes:
        current[:] = []
        if operation == "UPDATE":
            await api.call("POST", path, body)
        current[:] = [change]
        if operation == "CREATE":
            reply = await api.call("POST", path, body)
        else:
            reply = await api.call(
                "PATCH", f"{path}/oa", {"metadata": {"labels": {"seen": "yes"}}},
                content_type="application/merge-patch+json",
            )  # fmt: skip
        text = str(reply.body.get("message")) if reply.status >= 400 else ""
        assert reply.status in (200, 201, 400, 409, 422, 500), (change, reply)
        assert not BROKEN.search(text), (change, text)
        current[:] = []
        for left in (await api.get(path))["items"]:
            await api.call("PATCH", f"{path}/{left['metadata']['name']}", {"metadata": {"finalizers": None}},
                           content_type="application/merge-patch+json")  # fmt: skip
            await api.call("DELETE", f"{path}/{left['metadata']['name']}", {"gracePeriodSeconds": 0})


def raw(patch: Any) -> dict[str, Any]:
    """Return the members of a response whose patch is any JSON."""
    return {"patch": base64.b64encode(msgspec.json.encode(patch)).decode(), "patchType": "JSONPatch"}


def replaced(path: str, value: Any) -> dict[str, Any]:
    return json_patch({"op": "replace", "path": path, "value": value})


NO_CONVERSION = "converting (v1.Secret) to (core.ConfigMap): unknown conversion"
NO_KIND = (
    "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go struct field .kind of type "
)
UNDECODABLE = (
    'failed calling webhook "one.example.com": received undecodable patch in webhook response: json: cannot unmarshal'
)
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "number": (raw(3), f"{UNDECODABLE} number into Go value of type jsonpatch.Patch"),
    "operation": (raw([1]), f"{UNDECODABLE} number into Go value of type jsonpatch.Operation"),
    "null-operation": (raw([None]), "Unexpected kind: unknown"),
    "unknown-operation": (raw([{"op": "merge", "path": "/data"}]), "Unexpected kind: merge"),
    "kind": (replaced("/kind", "Secret"), NO_CONVERSION),
    "kind-type": (replaced("/kind", [1]), f"{NO_KIND}string"),
}


@pytest.mark.parametrize(("answer", "message"), REFUSED.values(), ids=REFUSED)
async def test_patch_that_does_not_apply(api: Api, webhooks: Webhooks, answer: dict[str, Any], message: str) -> None:
    await webhooks.add("Mutating", "one", lambda request: answer, rules=[RULE])
    reply = await api.call("POST", MAPS, {"metadata": {"name": "ma"}})
    assert (reply.status, reply.body["message"]) == (500, f"Internal error occurred: {message}")


async def test_null_patch_changes_nothing(api: Api, webhooks: Webhooks) -> None:
    await webhooks.add("Mutating", "one", lambda request: raw(None), rules=[RULE])
    assert (await api.call("POST", MAPS, {"metadata": {"name": "ma"}})).status == 201


async def test_new_object_is_not_terminating(api: Api, webhooks: Webhooks) -> None:
    patch = json_patch(
        {"op": "add", "path": "/metadata/deletionTimestamp", "value": "2020-01-01T00:00:00Z"},
        {"op": "add", "path": "/metadata/deletionGracePeriodSeconds", "value": 7},
    )
    await webhooks.add("Mutating", "one", lambda request: patch, rules=[RULE])
    made = await api.post(MAPS, {"metadata": {"name": "ma"}})
    assert {"deletionTimestamp", "deletionGracePeriodSeconds"}.isdisjoint(made["metadata"])


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ({"op": "replace", "path": "/metadata/uid", "value": "zz"}, 'metadata.uid: Invalid value: "zz"'),
        ({"op": "remove", "path": "/metadata/name"}, 'metadata.name: Invalid value: ""'),
    ],
)
async def test_update_cannot_change_the_identity(
    api: Api, webhooks: Webhooks, operation: dict[str, Any], message: str
) -> None:
    made = await api.post(MAPS, {"metadata": {"name": "ma"}})
    await webhooks.add("Mutating", "one", lambda request: json_patch(operation), rules=[RULE])
    reply = await api.call("PUT", f"{MAPS}/ma", {**made, "data": {"a": "b"}})
    expected = f'ConfigMap "ma" is invalid: {message}: field is immutable'
    assert (reply.status, reply.body["message"]) == (422, expected)


async def test_removed_uid_is_the_stored_one(api: Api, webhooks: Webhooks) -> None:
    made = await api.post(MAPS, {"metadata": {"name": "ma"}})
    patch = json_patch({"op": "remove", "path": "/metadata/uid"})
    await webhooks.add("Mutating", "one", lambda request: patch, rules=[RULE])
    new = await api.put(f"{MAPS}/ma", {**made, "data": {"a": "b"}})
    assert (new["metadata"]["uid"], new["data"]) == (made["metadata"]["uid"], {"a": "b"})
