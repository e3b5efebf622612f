"""Corners of custom resources and their definitions that random requests have found."""

from typing import Any

import pytest

from tests.kit.api import Api
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, definition, spec_schema, version, widget

pytestmark = pytest.mark.kcr_virtual

SCALE = {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}
REPLICAS = spec_schema({"replicas": {"type": "integer"}})


async def test_scale_of_no_replicas_is_read_and_written(api: Api) -> None:
    """In JSON, a Scale leaves the zero out. Source: customresource/etcd.go, scaleFromCustomResource."""
    await api.post(DEFINITIONS, definition(version("v1", REPLICAS, subresources=SCALE)))
    await api.post(WIDGETS, widget("w", {"replicas": 0}))
    assert (await api.get(f"{WIDGETS}/w/scale"))["spec"] == {}
    await api.patch(f"{WIDGETS}/w/scale", {"spec": {"replicas": 2}})
    assert (await api.patch(f"{WIDGETS}/w/scale", {"spec": {"replicas": 0}}))["spec"] == {}
    assert (await api.get(f"{WIDGETS}/w"))["spec"] == {"replicas": 0}


async def test_terminating_definition_can_be_written(api: Api) -> None:
    """Source: apimachinery/pkg/api/validation/objectmeta.go, ValidateFinalizers; no rule of the core's is added."""
    target = f"{DEFINITIONS}/widgets.ex.io"
    await api.post(DEFINITIONS, definition(version("v1", REPLICAS)))
    await api.post(WIDGETS, widget("w", metadata={"name": "w", "finalizers": ["a.b/c"]}))
    await api.delete(target)
    found = await api.get(target)
    assert (await api.put(target, found)) == found
    await api.patch(target, {"metadata": {"labels": {"a": "b"}}})
    await api.patch(f"{WIDGETS}/w", {"metadata": {"finalizers": None}})
    assert (await api.call("GET", target)).status == 404


async def test_changed_schema_makes_older_watches_begin_anew(api: Api) -> None:
    """What a schema prunes or fills in, no event says. Source: cacher/watch_cache.go, getAllEventsSinceLocked."""
    await api.post(DEFINITIONS, definition(version("v1", REPLICAS)))
    made = await api.post(WIDGETS, widget("w", {"replicas": 1}))
    crd = definition(version("v1", spec_schema({"color": {"type": "string", "default": "red"}})))
    await api.patch(f"{DEFINITIONS}/widgets.ex.io", {"spec": crd["spec"]})
    assert (await api.get(f"{WIDGETS}/w"))["spec"] == {"color": "red"}
    events = await api.watch(f"{WIDGETS}?resourceVersion={made['metadata']['resourceVersion']}&")
    assert (await events.next())["object"]["reason"] == "Expired"


NARROW, WIDE = spec_schema({"a": {"type": "string"}}), spec_schema({"a": {"type": "string"}, "b": {"type": "string"}})
TWO_VERSIONS = definition(version("v1", WIDE, storage=False), version("v2", NARROW))


async def test_managers_own_what_they_applied_although_it_is_not_stored(api: Api) -> None:
    """The storage version has no field b."""
    await api.post(DEFINITIONS, TWO_VERSIONS)
    reply = await api.apply(f"{WIDGETS}/w", widget("w", {"a": "1", "b": "2"}))
    assert reply.body["spec"] == {"a": "1"}
    assert [one["fieldsV1"] for one in reply.body["metadata"]["managedFields"]] == [{"f:spec": {"f:a": {}, "f:b": {}}}]
    assert (await api.apply(f"{WIDGETS}/w", widget("w", {"a": "1", "b": "2"}))).body == reply.body


async def test_put_of_what_one_version_shows_keeps_the_managers_of_another(api: Api) -> None:
    crd = definition(version("v1", WIDE), version("v2", NARROW, storage=False))
    await api.post(DEFINITIONS, crd)
    applied = (await api.apply(f"{WIDGETS}/w", widget("w", {"a": "1", "b": "2"}))).body
    other = WIDGETS.replace("v1", "v2")
    shown = await api.get(f"{other}/w")
    assert await api.put(f"{other}/w", shown) == shown
    assert await api.get(f"{WIDGETS}/w") == applied


async def test_put_of_what_a_new_schema_has_pruned_changes_nothing(api: Api) -> None:
    await api.post(DEFINITIONS, definition(version("v1", WIDE)))
    await api.apply(f"{WIDGETS}/w", widget("w", {"a": "1", "b": "2"}))
    await api.patch(f"{DEFINITIONS}/widgets.ex.io", {"spec": definition(version("v1", NARROW))["spec"]})
    found = await api.get(f"{WIDGETS}/w")
    assert found["spec"] == {"a": "1"}
    assert await api.put(f"{WIDGETS}/w", found) == found


async def test_conditions_of_definitions_may_have_no_time(api: Api) -> None:
    target = f"{DEFINITIONS}/widgets.ex.io"
    await api.post(DEFINITIONS, definition(version("v1", REPLICAS)))
    found = await api.get(target)
    del found["status"]["conditions"][0]["lastTransitionTime"]
    shown = (await api.put(f"{target}/status", found))["status"]
    assert shown["conditions"][0] == {**found["status"]["conditions"][0], "lastTransitionTime": None}
    await api.delete(target)
    assert (await api.call("GET", target)).status == 404


async def test_conditions_of_definitions_always_have_type_and_status(api: Api) -> None:
    # Go's struct writes them even when they are empty.
    target = f"{DEFINITIONS}/widgets.ex.io"
    await api.post(DEFINITIONS, definition(version("v1", REPLICAS)))
    shown = await api.patch(f"{target}/status", {"status": {"conditions": [{"reason": "Odd"}]}})
    assert {"type": "", "status": "", "lastTransitionTime": None, "reason": "Odd"} in shown["status"]["conditions"]


@pytest.mark.parametrize("metadata", ["text", {"name": 1}, [], None])
async def test_another_kind_is_refused_whatever_its_metadata(api: Api, metadata: Any) -> None:
    await api.post(DEFINITIONS, definition(version("v1", REPLICAS)))
    reply = await api.call("POST", WIDGETS, {"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": metadata})
    assert (reply.status, reply.body["details"]["causes"][0]["field"]) == (422, "kind")


@pytest.mark.parametrize(
    "default", [{"properties": 1}, {"oneOf": [], "nullable": True}, {"items": {"properties": "x"}}]
)
async def test_openapi_shows_defaults_as_they_are(api: Api, default: Any) -> None:
    field = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "default": default}
    await api.post(DEFINITIONS, definition(version("v1", spec_schema({"a": field}))))
    shown = (await api.get("/openapi/v2"))["definitions"]["io.ex.v1.Widget"]["properties"]["spec"]["properties"]["a"]
    assert shown["default"] == default


async def test_versions_say_whether_they_are_served_and_stored(api: Api) -> None:
    second = {"name": "v2", "schema": {"openAPIV3Schema": REPLICAS}}
    made = await api.post(DEFINITIONS, definition(version("v1", REPLICAS), second))
    assert [(one["served"], one["storage"]) for one in made["spec"]["versions"]] == [(True, True), (False, False)]


async def test_scale_is_written_where_there_was_none(api: Api) -> None:
    """Source: apiextensions-apiserver/pkg/registry/customresource/etcd.go, scaleUpdatedObjectInfo and Update."""
    await api.post(DEFINITIONS, definition(version("v1", REPLICAS, subresources=SCALE)))
    await api.post(WIDGETS, widget("w", {}))
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}}
    empty = (400, 'the spec replicas field ".spec.replicas" cannot be empty')
    merge = "application/merge-patch+json"
    for reply in (
        await api.call("PATCH", f"{WIDGETS}/w/scale", {"metadata": {}}, content_type=merge),
        await api.apply(f"{WIDGETS}/w/scale", scale),
    ):
        assert (reply.status, reply.body["message"]) == empty
    assert (await api.patch(f"{WIDGETS}/w/scale", {"spec": {"replicas": 2}}))["spec"] == {"replicas": 2}


async def test_scale_that_is_not_stored_is_zero(api: Api) -> None:
    """The storage version has no such field: what was written is dropped, and the answer shows what is left."""
    crd = definition(version("v1", REPLICAS, subresources=SCALE, storage=False), version("v2", spec_schema({})))
    await api.post(DEFINITIONS, crd)
    await api.post(WIDGETS, widget("w", {}))
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}, "spec": {"replicas": 2}}
    applied = await api.apply(f"{WIDGETS}/w/scale", scale)
    assert (applied.status, applied.body["spec"]) == (200, {})
    assert (await api.put(f"{WIDGETS}/w/scale", scale))["spec"] == {}


PHASES = {"type": "object", "default": {"phase": "New"}, "properties": {
    "phase": {"type": "string"}, "tries": {"type": "integer", "default": 3},
}}  # fmt: skip
WITH_PHASES = {"type": "object", "properties": {"spec": {"type": "object"}, "status": PHASES}}


async def test_status_that_is_dropped_gets_its_default(api: Api) -> None:
    """Upstream, reading fills in defaults. Source: customresource_handler.go, unstructuredDefaulter."""
    await api.post(DEFINITIONS, definition(version("v1", WITH_PHASES, subresources={"status": {}})))
    dry = await api.call("POST", f"{WIDGETS}?dryRun=All", widget("w", metadata={"name": "w", "resourceVersion": "77"}))
    assert (dry.body["status"], dry.body["metadata"]["resourceVersion"]) == ({"phase": "New", "tries": 3}, "77")
    made = await api.post(WIDGETS, widget("w", status={"phase": "Mine"}))
    assert made["status"] == {"phase": "New", "tries": 3}
    done = await api.put(f"{WIDGETS}/w/status", {**made, "status": {"phase": "Done"}})
    assert (await api.put(f"{WIDGETS}/w", {**done, "status": {}}))["status"] == {"phase": "Done", "tries": 3}


async def test_rules_are_not_evaluated_for_an_object_without_a_name(api: Api) -> None:
    """Source: pkg/registry/customresource/validator.go, hasBlockingErr: metadata are validated before."""
    rules = [{"rule": "self.a == 'x'"}]
    schema = spec_schema({"a": {"type": "string"}}, **{"x-kubernetes-validations": rules})
    await api.post(DEFINITIONS, definition(version("v1", schema)))
    reply = await api.call("POST", WIDGETS, widget("", {"a": "y"}, metadata={}))
    assert [(one["field"], one["reason"]) for one in reply.body["details"]["causes"]] == [
        ("metadata.name", "FieldValueRequired"), ("<nil>", "FieldValueInvalid"),
    ]  # fmt: skip
