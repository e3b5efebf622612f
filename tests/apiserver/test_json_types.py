"""A value of another type is another value: 1 is not true, and an update from one to the other is no no-op.

Source: RFC 8259; kubernetes/staging/src/k8s.io/apimachinery/pkg/api/equality/semantic.go.
"""

from typing import Any

import pytest

from tests.kit.api import Api
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, definition, spec_schema, version, widget

pytestmark = pytest.mark.kcr_virtual

OPEN = spec_schema({}, **{"x-kubernetes-preserve-unknown-fields": True})
NUMBERS = {"on": 1, "n": 0, "l": [0], "m": {"a": [{"b": 1}]}}
BOOLEANS = {"on": True, "n": False, "l": [False], "m": {"a": [{"b": True}]}}


async def open_widget(api: Api) -> Any:
    await api.post(DEFINITIONS, definition(version("v1", OPEN)))
    return await api.post(WIDGETS, widget("w", NUMBERS))


@pytest.mark.parametrize("form", ["merge-patch", "json-patch", "put"])
async def test_update_to_a_value_of_another_type_is_stored(api: Api, form: str) -> None:
    made = await open_widget(api)
    target = f"{WIDGETS}/w"
    if form == "put":
        found = await api.put(target, made | {"spec": BOOLEANS})
    else:
        operation = {"op": "replace", "path": "/spec", "value": BOOLEANS}
        found = await api.patch(target, {"spec": BOOLEANS} if form == "merge-patch" else [operation], form)
    assert str(found["spec"]) == str(BOOLEANS)
    assert found["metadata"]["generation"] == 2
    assert found["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    assert str((await api.get(target))["spec"]) == str(BOOLEANS)
    assert await api.put(target, found) == found


async def test_fields_of_another_type_have_another_owner(api: Api) -> None:
    await api.post(DEFINITIONS, definition(version("v1", OPEN)))
    target = f"{WIDGETS}/w"
    await api.apply(target, widget("w", NUMBERS), "one")
    refused = await api.apply(target, widget("w", {"on": True}), "two")
    assert (refused.status, refused.body["reason"]) == (409, "Conflict")
    forced = await api.apply(target, widget("w", {"on": True}), "two", "force=true")
    assert str(forced.body["spec"]["on"]) == "True"
    owners = {one["manager"]: one["fieldsV1"]["f:spec"] for one in forced.body["metadata"]["managedFields"]}
    assert ("f:on" in owners["one"], "f:on" in owners["two"]) == (False, True)


@pytest.mark.parametrize("value", [True, False], ids=["true", "false"])
async def test_value_of_the_wrong_type_is_no_unchanged_one(api: Api, value: bool) -> None:
    """Ratcheting excuses unchanged values only."""
    await api.post(DEFINITIONS, definition(version("v1", spec_schema({"n": {"type": "integer"}}))))
    await api.post(WIDGETS, widget("w", {"n": int(value)}))
    patch = {"spec": {"n": value}}
    refused = await api.call("PATCH", f"{WIDGETS}/w", patch, content_type="application/merge-patch+json")
    assert refused.status == 422
    assert 'must be of type integer: "boolean"' in refused.body["message"]


async def test_default_of_another_type_is_served(api: Api) -> None:
    def schema(default: Any) -> dict[str, Any]:
        return spec_schema({"n": {"x-kubernetes-preserve-unknown-fields": True, "default": default}})

    made = await api.post(DEFINITIONS, definition(version("v1", schema(1))))
    assert made["metadata"]["generation"] == 1
    changed = definition(version("v1", schema(True)))["spec"]
    assert (await api.patch(f"{DEFINITIONS}/widgets.ex.io", {"spec": changed}))["metadata"]["generation"] == 2
    assert str((await api.post(WIDGETS, widget("w", {})))["spec"]) == "{'n': True}"


async def test_changed_definition_with_a_default_of_the_wrong_type_is_refused(api: Api) -> None:
    await api.post(DEFINITIONS, definition(version("v1", spec_schema({"n": {"type": "integer", "default": 1}}))))
    changed = definition(version("v1", spec_schema({"n": {"type": "integer", "default": True}})))["spec"]
    target = f"{DEFINITIONS}/widgets.ex.io"
    refused = await api.call("PATCH", target, {"spec": changed}, content_type="application/merge-patch+json")
    assert refused.status == 422


async def test_data_of_a_controller_revision_stay_of_one_type(api: Api) -> None:
    revisions = "/apis/apps/v1/namespaces/default/controllerrevisions"
    revision = {"metadata": {"name": "r"}, "revision": 1, "data": {"a": 1}}
    await api.post(revisions, revision)
    patch = {"data": {"a": True}}
    refused = await api.call("PATCH", f"{revisions}/r", patch, content_type="application/merge-patch+json")
    assert refused.status == 422
    assert "data: Invalid value" in refused.body["message"]


async def test_value_of_another_type_fails_the_test_of_a_json_patch(api: Api) -> None:
    """The texts are compared. Source: evanphx/json-patch, lazyNode.equal."""
    await open_widget(api)
    for value, status in ((1.0, 422), (True, 422), (1, 200)):
        operation = {"op": "test", "path": "/spec/on", "value": value}
        reply = await api.call("PATCH", f"{WIDGETS}/w", [operation], content_type="application/json-patch+json")
        assert reply.status == status
