"""Validation rules (`x-kubernetes-validations`): what they refuse, and which are refused themselves.

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go;
kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions.
"""

from typing import Any

import pytest

from tests.kit.api import Api
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, Json, definition, spec_schema, version, widget

pytestmark = pytest.mark.kcr_virtual
TEXT: Json = {"type": "string"}
NUMBER: Json = {"type": "integer"}
ITEM: Json = {"type": "object", "required": ["k"], "properties": {"k": TEXT, "v": NUMBER}}
FIELDS: Json = {
    "min": NUMBER, "max": NUMBER, "ratio": {"type": "number"}, "name": TEXT, "tags": {"type": "array", "items": TEXT},
    "map": {"type": "object", "additionalProperties": TEXT}, "port": {"x-kubernetes-int-or-string": True},
    "since": {"type": "string", "format": "date-time"}, "wait": {"type": "string", "format": "duration"},
    "times": {"type": "array", "items": {"type": "string", "format": "date-time"}},
    "my-name": TEXT, "namespace": TEXT, "list": {"type": "array", "items": ITEM}, "note": {**TEXT, "nullable": True},
}  # fmt: skip


def ruled(rule: str, **more: Any) -> Json:
    return spec_schema(FIELDS, **{"x-kubernetes-validations": [{"rule": rule, **more}]})


async def install(api: Api, schema: Json) -> None:
    await api.post(DEFINITIONS, definition(version("v1", schema)))


async def patched(api: Api, spec: Any) -> list[tuple[str, str]]:
    reply = await api.call("PATCH", f"{WIDGETS}/w", {"spec": spec}, content_type="application/merge-patch+json")
    found = reply.body.get("details", {}).get("causes", [])
    return [(cause["field"], cause["message"]) for cause in found]


async def test_versions_with_numbers_out_of_range_are_none(api: Api) -> None:
    rule = f"isSemver('1.0.0-{'9' * 5000}') || isSemver('1.{2**64}.0')"
    await install(api, spec_schema({}, **{"x-kubernetes-validations": [{"rule": rule}]}))
    (cause,) = (await api.call("POST", WIDGETS, widget("w", {}))).body["details"]["causes"]
    assert (cause["field"], cause["message"]) == ("spec", f"Invalid value: failed rule: {rule}")


async def test_rule_that_takes_too_long_for_an_object_is_its_error(api: Api) -> None:
    rule = "self.l.all(a, self.l.all(b, self.l.all(c, true)))"
    fields = {"l": {"type": "array", "maxItems": 140, "items": {"type": "integer"}}}
    schema = spec_schema(fields, **{"x-kubernetes-validations": [{"rule": rule}]})
    await api.post(DEFINITIONS, definition(version("v1", schema)))
    reply = await api.call("POST", WIDGETS, widget("w", {"l": list(range(140))}))
    assert (reply.status, reply.body["details"]["causes"][0]["message"]) == (
        422,
        "Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': "
        f"no further validation rules will be run due to call cost exceeds limit for rule: {rule}",
    )


async def test_scalar_that_breaks_its_rule_is_shown(api: Api) -> None:
    schema = spec_schema({"x": {"type": "integer", "x-kubernetes-validations": [{"rule": "self % 2 == 0"}]}})
    await install(api, schema)
    reply = await api.call("POST", WIDGETS, widget("w", {"x": 3}))
    assert reply.body["message"] == 'Widget.ex.io "w" is invalid: spec.x: Invalid value: 3: failed rule: self % 2 == 0'


async def test_rule_of_a_list_of_times_compares_them(api: Api) -> None:
    rule = {"rule": "self.all(t, t < timestamp('2026-01-01T00:00:00Z'))"}
    times = {**FIELDS["times"], "x-kubernetes-validations": [rule]}
    await install(api, spec_schema({"x": times}))
    await api.post(WIDGETS, widget("w", {"x": ["2025-01-01T00:00:00Z"]}))
    assert await patched(api, {"x": ["2027-01-01T00:00:00Z"]}) == [
        ("spec.x", f"Invalid value: failed rule: {rule['rule']}")
    ]


async def test_rules_wait_for_a_valid_object(api: Api) -> None:
    await install(api, ruled("self.min <= self.max"))
    reply = await api.call("POST", WIDGETS, widget("w", {"min": "a", "max": 0}))
    assert reply.body["details"]["causes"][-1] == {
        "reason": "FieldValueInvalid",
        "message": "Invalid value: null: some validation rules were not checked because the object was invalid; "
        "correct the existing errors to complete validation",
        "field": "<nil>",
    }


async def test_transition_rules_need_an_old_value(api: Api) -> None:
    fixed = {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}]}
    await install(api, spec_schema({"x": fixed, "y": TEXT}))
    await api.post(WIDGETS, widget("w", {}))
    assert await patched(api, {"x": "a"}) == []
    assert await patched(api, {"x": "b"}) == [("spec.x", 'Invalid value: "b": is immutable')]
    assert await patched(api, {"x": None}) == []
    assert await patched(api, {"x": "c"}) == []


async def test_optional_old_value_makes_a_rule_of_create(api: Api) -> None:
    await install(api, ruled("oldSelf.hasValue() || self.min == 1", optionalOldSelf=True, message="begins with 1"))
    reply = await api.call("POST", WIDGETS, widget("n", {"min": 2}))
    assert reply.body["details"]["causes"][0]["message"] == "Invalid value: begins with 1"
    await api.post(WIDGETS, widget("w", {"min": 1}))
    assert await patched(api, {"min": 5}) == []


async def test_items_of_list_maps_keep_their_identity(api: Api) -> None:
    grows = {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]}
    item = {**ITEM, "properties": {"k": TEXT, "v": grows}}
    listed = {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    await install(api, spec_schema({"list": listed}))
    await api.post(WIDGETS, widget("w", {"list": [{"k": "a", "v": 5}, {"k": "b", "v": 1}]}))
    moved = [{"k": "c", "v": 0}, {"k": "b", "v": 1}, {"k": "a", "v": 4}]
    assert await patched(api, {"list": moved}) == [("spec.list[2].v", "Invalid value: 4: failed rule: self >= oldSelf")]


async def test_unchanged_value_is_not_held_against_a_new_rule(api: Api) -> None:
    await install(api, spec_schema({"x": TEXT, "y": TEXT}))
    await api.post(WIDGETS, widget("w", {"x": "bad"}))
    ruled_x = {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'bad'"}]}
    schema = spec_schema({"x": ruled_x, "y": TEXT})
    await api.patch(f"{DEFINITIONS}/widgets.ex.io", {"spec": {"versions": [version("v1", schema)]}})
    assert await patched(api, {"y": "z"}) == []
    kept = await api.call("PATCH", f"{WIDGETS}/w", {"spec": {"y": "q"}}, content_type="application/merge-patch+json")
    assert kept.headers["Warning"] == '299 - "spec.x: Invalid value: \\"bad\\": failed rule: self != \'bad\'"'
    assert (await api.call("POST", WIDGETS, widget("n", {"x": "bad"}))).status == 422


async def test_cost_of_all_rules_is_refused_with_the_four_highest(api: Api) -> None:
    # Each of them is within its own limit.
    rules = [{"rule": f"self.tags.all(t, t.size() != {one})"} for one in range(11)]
    tags = {"type": "array", "items": {"type": "array", "items": TEXT, "maxItems": 10}, "maxItems": 130_000}
    inner = {"type": "object", "properties": {"tags": tags}, "x-kubernetes-validations": rules}
    schema = spec_schema({"l": {"type": "array", "items": inner, "maxItems": 12}})
    reply = await api.call("POST", DEFINITIONS, definition(version("v1", schema)))
    causes = [(one["field"].rpartition(".")[2], one["message"]) for one in reply.body["details"]["causes"]]
    words = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
    assert [cause for cause in causes if cause[0] == "rule"] == [("rule", f"Forbidden: {words}")] * 4
    total = "Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget"
    assert causes[-1][0] == "openAPIV3Schema"
    assert causes[-1][1].startswith(total)
