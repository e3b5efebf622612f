"""Patches of webhooks that leave no valid object: the answer is an error, and never a failure of the server.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go,
callAttrMutatingHook.
"""

import re
from itertools import product
from typing import Any

import pytest

from tests.kit.api import Api, pod
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, definition, version, widget
from tests.kit.webhooks import Webhooks, json_patch

pytestmark = pytest.mark.kcr_virtual
RULE = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["pods", "configmaps", "widgets"]}
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
