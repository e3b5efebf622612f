"""Custom resources that their schema refuses, in the words of kube-apiserver.

Source: api-server §21.4; k8s.io/kube-openapi/pkg/validation/errors/schema.go; kubernetes/staging/src/k8s.io/
apiextensions-apiserver/pkg/apiserver/{validation,schema/listtype,schema/objectmeta}/validation.go.
"""

from typing import Any

import pytest

from tests.kit.api import Api
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, Json, definition, spec_schema, version, widget

pytestmark = pytest.mark.kcr_virtual
TEXT: Json = {"type": "string"}
NUMBER: Json = {"type": "integer"}
EITHER = [{"properties": {"a": {"minLength": 1}}, "required": ["a"]}, {"required": ["b"]}]


async def refused(api: Api, schema: Json, spec: Any) -> dict[str, Any]:
    await api.post(DEFINITIONS, definition(version("v1", schema)))
    reply = await api.call("POST", WIDGETS, widget("w", spec))
    assert reply.status == 422, reply.body
    status: dict[str, Any] = reply.body
    return status


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        pytest.param({"type": "integer", "minimum": 1}, 1, id="minimum"),
        pytest.param({"type": "integer", "minimum": 1}, 2, id="above-the-minimum"),
        pytest.param({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, 2, id="above-an-exclusive-minimum"),
        pytest.param({"type": "integer", "maximum": 5}, 5, id="maximum"),
        pytest.param({"type": "integer", "maximum": 5}, 4, id="below-the-maximum"),
        pytest.param({"type": "number", "maximum": 0.5, "exclusiveMaximum": True}, 0.4, id="below-an-exclusive-one"),
        pytest.param({"type": "integer", "multipleOf": 3}, 6, id="multiple"),
        pytest.param({"type": "string", "minLength": 2, "maxLength": 2}, "ab", id="length"),
        pytest.param({"type": "array", "items": TEXT, "minItems": 1, "maxItems": 1}, ["a"], id="items"),
    ],
)
async def test_value_within_its_bounds_is_stored(api: Api, schema: Json, value: object) -> None:
    await api.post(DEFINITIONS, definition(version("v1", spec_schema({"x": schema}))))
    assert (await api.post(WIDGETS, widget("w", {"x": value})))["spec"] == {"x": value}


@pytest.mark.parametrize(
    ("schema", "value", "reason", "message"),
    [
        pytest.param(
            {"type": "integer", "minimum": 1}, 0, "FieldValueInvalid",
            "Invalid value: 0: spec.x in body should be greater than or equal to 1", id="minimum",
        ),
        pytest.param(
            {"type": "integer", "minimum": 1, "exclusiveMinimum": True}, 1, "FieldValueInvalid",
            "Invalid value: 1: spec.x in body should be greater than 1", id="exclusive-minimum",
        ),
        pytest.param(
            {"type": "integer", "maximum": 5}, 6, "FieldValueInvalid",
            "Invalid value: 6: spec.x in body should be less than or equal to 5", id="maximum",
        ),
        pytest.param(
            {"type": "number", "maximum": 0.5, "exclusiveMaximum": True}, 0.5, "FieldValueInvalid",
            "Invalid value: 0.5: spec.x in body should be less than 0.5", id="exclusive-maximum",
        ),
        pytest.param(
            {"type": "integer", "multipleOf": 3}, 4, "FieldValueInvalid",
            "Invalid value: 4: spec.x in body should be a multiple of 3", id="multiple-of",
        ),
        pytest.param(
            {"type": "string", "maxLength": 2}, "äöü", "FieldValueTooLong",
            "Too long: may not be more than 2 bytes", id="max-length",
        ),
        pytest.param(
            {"type": "string", "minLength": 2}, "a", "FieldValueInvalid",
            'Invalid value: "a": spec.x in body should be at least 2 chars long', id="min-length",
        ),
        pytest.param(
            {"type": "string", "pattern": "^a+$"}, "ab", "FieldValueInvalid",
            "Invalid value: \"ab\": spec.x in body should match '^a+$'", id="pattern",
        ),
        pytest.param(
            {"type": "string", "pattern": "^(a+)+$"}, "a" * 40 + "b", "FieldValueInvalid",
            f"Invalid value: \"{'a' * 40}b\": spec.x in body should match '^(a+)+$'", id="pattern-of-repeated-groups",
        ),
        pytest.param(
            {"type": "string", "enum": ["red", "blue"]}, "green", "FieldValueNotSupported",
            'Unsupported value: "green": supported values: "red", "blue"', id="enum",
        ),
        pytest.param(
            {"type": "integer", "enum": [1, 2]}, 3, "FieldValueNotSupported",
            'Unsupported value: 3: supported values: "1", "2"', id="enum-of-numbers",
        ),
        pytest.param(
            {"type": "array", "items": TEXT}, "a", "FieldValueTypeInvalid",
            'Invalid value: "string": spec.x in body must be of type array: "string"', id="type",
        ),
        pytest.param(
            NUMBER, 1.5, "FieldValueTypeInvalid",
            'Invalid value: "number": spec.x in body must be of type integer: "number"', id="type-of-number",
        ),
        pytest.param(
            {"x-kubernetes-int-or-string": True}, True, "FieldValueTypeInvalid",
            'Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean"', id="int-or-string",
        ),
        pytest.param(
            {"type": "string", "format": "date-time"}, "now", "FieldValueTypeInvalid",
            'Invalid value: "now": spec.x in body must be of type date-time: "now"', id="format",
        ),
        pytest.param(
            {"type": "array", "items": TEXT, "minItems": 1}, [], "FieldValueInvalid",
            "Invalid value: 0: spec.x in body should have at least 1 items", id="min-items",
        ),
        pytest.param(
            {"type": "array", "items": TEXT, "maxItems": 1}, ["a", "b"], "FieldValueTooMany",
            "Too many: 2: must have at most 1 items", id="max-items",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": TEXT, "minProperties": 1}, {}, "FieldValueInvalid",
            "Invalid value: 0: spec.x in body should have at least 1 properties", id="min-properties",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": TEXT, "maxProperties": 1}, {"a": "1", "b": "2"},
            "FieldValueTooMany", "Too many: 2: must have at most 1 items", id="max-properties",
        ),
    ],
)  # fmt: skip
async def test_value_is_refused_by_its_schema(api: Api, schema: Json, value: object, reason: str, message: str) -> None:
    status = await refused(api, spec_schema({"x": schema}), {"x": value})
    assert status["details"]["causes"] == [{"reason": reason, "message": message, "field": "spec.x"}]
    assert status["message"] == f'Widget.ex.io "w" is invalid: spec.x: {message}'
    assert {key: status["details"][key] for key in ("name", "group", "kind")} == {
        "name": "w", "group": "ex.io", "kind": "Widget",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "value", "causes"),
    [
        pytest.param(
            {"type": "object", "required": ["a"], "properties": {"a": TEXT}}, {},
            [("spec.x.a", "Required value")], id="required",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "object", "properties": {"a": NUMBER}}}, [{}, {"a": "b"}],
            [("spec.x[1].a", 'Invalid value: "string": spec.x[1].a in body must be of type integer: "string"')],
            id="path-of-an-item",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": NUMBER}, {"k": "b"},
            [("spec.x.k", 'Invalid value: "string": spec.x.k in body must be of type integer: "string"')],
            id="path-of-an-entry",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "anyOf": EITHER}, {"a": ""},
            [
                ("<nil>", 'Invalid value: "": "spec.x" must validate at least one schema (anyOf)'),
                ("spec.x.a", 'Invalid value: "": spec.x.a in body should be at least 1 chars long'),
            ],
            id="any-of",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "oneOf": EITHER}, {"a": "1", "b": "2"},
            [(
                "<nil>",
                'Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found 2 valid alternatives',
            )],
            id="one-of-two",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "not": {"required": ["b"]}}, {"b": "1"},
            [("<nil>", 'Invalid value: "": "spec.x" must not validate the schema (not)')], id="not",
        ),
        pytest.param(
            {"type": "integer", "allOf": [{"minimum": 3}, {"maximum": 9}]}, 1,
            [
                ("spec.x", "Invalid value: 1: spec.x in body should be greater than or equal to 3"),
                ("<nil>", 'Invalid value: "": "spec.x" must validate all the schemas (allOf)'),
            ],
            id="all-of",
        ),
        pytest.param(
            {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}, ["a", "b", "a", "a"],
            [("spec.x[2]", 'Duplicate value: "a"')], id="set",
        ),
        pytest.param(
            {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["p", "q"],
                "items": {
                    "type": "object", "required": ["p"],
                    "properties": {"p": TEXT, "q": {"type": "integer", "default": 1}},
                },
            },
            [{"p": "a"}, {"p": "a", "q": 1}, {"p": "a", "q": 2}],
            [("spec.x[1]", 'Duplicate value: {"p":"a","q":1}')], id="map-with-a-default-key",
        ),
        pytest.param(
            {
                "type": "object", "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
            },
            {"kind": "Pod", "metadata": {"labels": {"-": "a"}}},
            [
                ("spec.x.apiVersion", "Required value"),
                ("spec.x.metadata.labels", 'Invalid value: "-": name part must consist of'),
            ],
            id="embedded-resource",
        ),
        pytest.param(
            {"type": "integer", "format": "int32"}, 1 << 31,
            [("<nil>", 'Invalid value: "": Checked value must be of type integer with format int32 in spec.x')],
            id="int32",
        ),
    ],
)  # fmt: skip
async def test_causes_name_what_is_wrong_where(
    api: Api, schema: Json, value: object, causes: list[tuple[str, str]]
) -> None:
    status = await refused(api, spec_schema({"x": schema}), {"x": value})
    found = [(cause["field"], cause["message"]) for cause in status["details"]["causes"]]
    assert [field for field, _ in found] == [field for field, _ in causes]
    assert all(text.startswith(wanted) for (_, text), (_, wanted) in zip(found, causes, strict=True)), found


async def test_what_did_not_change_is_not_refused(api: Api) -> None:
    free = spec_schema({"x": TEXT, "y": TEXT})
    await api.post(DEFINITIONS, definition(version("v1", free)))
    await api.post(WIDGETS, widget("w", {"x": "long", "y": "a"}))
    strict = spec_schema({"x": {"type": "string", "maxLength": 1}, "y": TEXT})
    await api.patch(f"{DEFINITIONS}/widgets.ex.io", {"spec": {"versions": [version("v1", strict)]}})
    assert (await api.patch(f"{WIDGETS}/w", {"spec": {"y": "b"}}))["spec"] == {"x": "long", "y": "b"}
    reply = await api.call(
        "PATCH", f"{WIDGETS}/w", {"spec": {"x": "other"}}, content_type="application/merge-patch+json"
    )
    assert reply.status == 422


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        pytest.param(
            {"metadata": {"name": "w"}}, 400,
            "the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in "
            '\'{"metadata":{"name":"w"}}\'',
            id="no-kind",
        ),
        pytest.param(
            {"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": "w"}}, 422,
            'Widget.ex.io "w" is invalid: kind: Invalid value: "Foo": must be Widget', id="other-kind",
        ),
        pytest.param(
            {"apiVersion": "ex.io/v2", "kind": "Widget", "metadata": {"name": "w"}}, 400,
            "the API version in the data (ex.io/v2) does not match the expected API version (ex.io/v1)",
            id="other-version",
        ),
        pytest.param(
            {"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": {"name": "w", "labels": {"a": 1}}}, 400,
            'Widget in version "v1" cannot be handled as a Widget: json: cannot unmarshal number', id="label-of-1",
        ),
        pytest.param(
            {"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": {"name": "W"}}, 422,
            'Widget.ex.io "W" is invalid: metadata.name: Invalid value: "W": a lowercase RFC 1123 subdomain',
            id="name",
        ),
    ],
)  # fmt: skip
async def test_object_of_another_type_is_refused(api: Api, body: Json, status: int, message: str) -> None:
    await api.post(DEFINITIONS, definition(version("v1", spec_schema({}))))
    reply = await api.call("POST", WIDGETS, body)
    assert reply.status == status
    assert reply.body["message"].startswith(message)
