"""Several versions of a custom resource whose schemas differ: who sees which fields, with which defaults.

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go,
crdConversionRESTOptionsGetter and schemaCoercingConverter.
"""

from typing import Any

import pytest

from tests.kit.api import Api
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, Json, definition, spec_schema, version, widget

pytestmark = pytest.mark.kcr_virtual
NEXT = WIDGETS.replace("/v1/", "/v2/")
TEXT: Json = {"type": "string"}
STORED = spec_schema({"a": TEXT, "both": {**TEXT, "default": "stored"}, "old": {**TEXT, "default": "kept"}})
REQUESTED = spec_schema({"a": TEXT, "both": {**TEXT, "default": "requested"}, "new": {**TEXT, "default": "two"}})


async def install(api: Api) -> None:
    await api.post(DEFINITIONS, definition(version("v1", STORED), version("v2", REQUESTED, storage=False)))


def newer(spec: Any) -> Json:
    return {**widget("w", spec), "apiVersion": "ex.io/v2"}


async def test_reads_show_the_defaults_of_the_stored_version(api: Api) -> None:
    await install(api)
    watch = await api.watch(f"{NEXT}?")
    await api.post(WIDGETS, widget("w", {"a": "1"}))
    shown = {"a": "1", "both": "stored"}
    assert (await api.get(f"{NEXT}/w"))["spec"] == shown
    assert [one["spec"] for one in (await api.get(NEXT))["items"]] == [shown]
    assert (await watch.next())["object"]["spec"] == shown
    assert (await api.get(f"{WIDGETS}/w"))["spec"] == {**shown, "old": "kept"}


async def test_requests_have_the_defaults_of_their_own_version(api: Api) -> None:
    await install(api)
    # What the stored version does not have is not stored, and not shown.
    assert (await api.post(NEXT, newer({"a": "1"})))["spec"] == {"a": "1", "both": "requested"}
    assert (await api.get(f"{WIDGETS}/w"))["spec"] == {"a": "1", "both": "requested", "old": "kept"}


@pytest.mark.parametrize("verb", ["put", "patch", "apply"])
async def test_write_shows_what_was_stored_of_it(api: Api, verb: str) -> None:
    await install(api)
    made = await api.post(WIDGETS, widget("w", {"a": "1"}))
    given = newer({"a": "2"})
    given["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
    match verb:
        case "put":
            found = await api.put(f"{NEXT}/w", given)
        case "patch":
            found = await api.patch(f"{NEXT}/w", {"spec": {"a": "2"}})
        case _:
            found = (await api.apply(f"{NEXT}/w", newer({"a": "2"}), query="force=true")).body
    both = "requested" if verb == "put" else "stored"
    assert found["spec"] == {"a": "2", "both": both}
    assert (await api.get(f"{WIDGETS}/w"))["spec"] == {"a": "2", "both": both, "old": "kept"}


async def test_scale_in_a_version_without_the_field_is_refused(api: Api) -> None:
    scale = {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}
    old = version("v1", spec_schema({"replicas": {"type": "integer"}}), subresources=scale)
    new = version("v2", spec_schema({}), storage=False, subresources=scale)
    await api.post(DEFINITIONS, definition(old, new))
    await api.post(WIDGETS, widget("w", {"replicas": 3}))
    body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}, "spec": {"replicas": 5}}
    replies = [
        await api.call("PUT", f"{NEXT}/w/scale", body),
        await api.call("PATCH", f"{NEXT}/w/scale", body, content_type="application/merge-patch+json"),
        await api.apply(f"{NEXT}/w/scale", body),
    ]
    words = (
        "the scale of widgets.ex.io writes .spec.replicas, which is not in the schema of ex.io/v2: "
        "add the field to that version of the CustomResourceDefinition"
    )
    assert [(one.status, one.body["message"]) for one in replies] == [(400, words)] * 3
    assert (await api.get(f"{WIDGETS}/w/scale"))["spec"] == {"replicas": 3}


async def test_default_of_a_field_named_default_is_its_own(api: Api) -> None:
    fields = {"default": {**TEXT, "default": "x"}, "list": {"type": "array", "items": {
        "type": "object", "properties": {"default": {**TEXT, "default": "y"}}}}}  # fmt: skip
    next_version = version("v2", spec_schema({**fields, "more": TEXT}), storage=False)
    await api.post(DEFINITIONS, definition(version("v1", spec_schema(fields)), next_version))
    await api.post(WIDGETS, widget("w", {"list": [{}]}))
    assert (await api.get(f"{NEXT}/w"))["spec"] == {"list": [{"default": "y"}], "default": "x"}
