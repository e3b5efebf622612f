"""Definitions that are refused, in the words of kube-apiserver.

Source: api-server §21.1; kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/
validation.go; pkg/apiserver/schema/{validation,complete}.go.
"""

from copy import deepcopy
from functools import reduce
from typing import Any

import pytest

from kcr_devcluster.apiserver.kinds.definitions.strategy import CustomResourceDefinitionStrategy
from tests.kit.api import Api
from tests.kit.custom_resources import DEFINITIONS, Json, definition, spec_schema, version

pytestmark = pytest.mark.kcr_virtual
TEXT: Json = {"type": "string"}
LIST_MAP: Json = {"type": "array", "x-kubernetes-list-type": "map"}
SCHEMA = "spec.validation.openAPIV3Schema"
X = f"{SCHEMA}.properties[spec].properties[x]"
GONE: Any = object()


def changed(path: str, value: Any) -> Any:
    """Return a definition with a member set, or removed; steps that are numbers are positions."""
    crd: Any = definition(version("v1", spec_schema({"x": TEXT})))
    *steps, last = [int(step) if step.isdecimal() else step for step in path.split(".")]
    parent: Any = reduce(lambda obj, step: obj[step], steps, crd)
    if value is GONE:
        del parent[last]
    else:
        parent[last] = value
    return crd


async def causes(api: Api, crd: Json) -> list[tuple[str, str]]:
    reply = await api.call("POST", DEFINITIONS, crd)
    assert reply.status == 422, reply.body
    return [(cause["field"], cause["message"]) for cause in reply.body["details"]["causes"]]


@pytest.mark.parametrize(
    ("path", "value", "field", "message"),
    [
        pytest.param("metadata.name", "a.ex.io", "metadata.name",
                     'Invalid value: "a.ex.io": must be spec.names.plural+"."+spec.group', id="name"),
        pytest.param("spec.scope", "Room", "spec.scope",
                     'Unsupported value: "Room": supported values: "Cluster", "Namespaced"', id="scope"),
        pytest.param("spec.scope", GONE, "spec.scope", "Required value", id="no-scope"),
        pytest.param("spec.names.kind", GONE, "spec.names.singular", "Required value", id="no-kind"),
        pytest.param("spec.names.kind", "A_b", "spec.names.kind",
                     'Invalid value: "A_b": may have mixed case, but should otherwise match: a DNS-1035', id="kind"),
        pytest.param("spec.names.listKind", "Widget", "spec.names.listKind",
                     'Invalid value: "Widget": kind and listKind may not be the same', id="list-kind"),
        pytest.param("spec.names.shortNames", ["a", "B"], "spec.names.shortNames[1]",
                     'Invalid value: "B": a DNS-1035 label must consist of', id="short-name"),
        pytest.param("spec.versions.0.storage", False, "spec.versions",
                     "Invalid value: [", id="no-storage-version"),
        pytest.param("spec.versions.0.name", "1", "spec.versions[0].name",
                     'Invalid value: "1": a DNS-1035 label must consist of', id="version"),
        pytest.param("spec.versions.0.schema", GONE, "spec.versions[0].schema.openAPIV3Schema", "Required value",
                     id="no-schema"),
        pytest.param("spec.versions.0.deprecationWarning", "w", "spec.versions[0].deprecationWarning",
                     'Invalid value: "w": can only be set for deprecated versions', id="deprecation"),
        pytest.param("spec.preserveUnknownFields", True, "spec.preserveUnknownFields",
                     "Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true",
                     id="preserve"),
        pytest.param("spec.conversion", {"strategy": "Maybe"}, "spec.conversion.strategy",
                     'Unsupported value: "Maybe": supported values: "None", "Webhook"', id="conversion"),
        pytest.param("spec.versions.0.subresources", {"scale": {"specReplicasPath": ".a", "statusReplicasPath": "b"}},
                     "spec.subresources.scale.specReplicasPath",
                     'Invalid value: ".a": should be a json path under .spec', id="scale"),
        pytest.param("spec.versions.0.additionalPrinterColumns", [{"name": "A", "type": "text", "jsonPath": "a"}],
                     "spec.additionalPrinterColumns[0].type",
                     'Invalid value: "text": must be one of boolean,date,integer,number,string', id="column"),
        pytest.param("spec.versions.0.selectableFields", [{"jsonPath": ".spec.y"}],
                     "spec.selectableFields[0].jsonPath",
                     'Invalid value: ".spec.y": is an invalid path: does not refer to a valid field', id="selectable"),
        pytest.param("spec.versions.0.schema.openAPIV3Schema.type", GONE, f"{SCHEMA}.type",
                     "Required value: must not be empty at the root", id="no-type"),
        pytest.param("spec.versions.0.schema.openAPIV3Schema.type", "array", f"{SCHEMA}.items",
                     "Required value: must be specified", id="array-at-the-root"),
        pytest.param("spec.versions.0.schema.openAPIV3Schema.nullable", True, f"{SCHEMA}.nullable",
                     "Forbidden: nullable cannot be true at the root", id="nullable-root"),
        pytest.param("spec.versions.0.schema.openAPIV3Schema.properties.metadata",
                     {"type": "object", "properties": {"labels": {"type": "object"}}},
                     f"{SCHEMA}.properties[metadata]",
                     "Forbidden: must not specify anything other than name and generateName", id="metadata"),
    ],
)  # fmt: skip
async def test_definition_is_refused(api: Api, path: str, value: Any, field: str, message: str) -> None:
    found = await causes(api, changed(path, value))
    assert any(where == field and said.startswith(message) for where, said in found), found


@pytest.mark.parametrize(
    ("schema", "field", "message"),
    [
        pytest.param({}, "type", "Required value: must not be empty for specified object fields", id="no-type"),
        pytest.param({"type": "text"}, "type", 'Unsupported value: "text": supported values: "array", "boolean"',
                     id="type"),
        pytest.param({"type": "array"}, "items", "Required value: must be specified", id="no-items"),
        pytest.param({"type": "array", "items": {}}, "items.type",
                     "Required value: must not be empty for specified array items", id="items-without-type"),
        pytest.param({"type": "array", "items": TEXT, "uniqueItems": True}, "uniqueItems",
                     "Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
                     id="unique-items"),
        pytest.param({"type": "object", "properties": {"a": TEXT}, "additionalProperties": TEXT},
                     "additionalProperties", "Forbidden: additionalProperties and properties are mutual exclusive",
                     id="both"),
        pytest.param({"type": "string", "anyOf": [{"type": "string"}]}, "anyOf[0].type",
                     "Forbidden: must be empty to be structural", id="nested-type"),
        pytest.param({"type": "string", "not": {"default": "a"}}, "not.default",
                     "Forbidden: must be undefined to be structural", id="nested-default"),
        pytest.param({"type": "string", "pattern": "("}, "pattern",
                     'Invalid value: "(": must be a valid regular expression, but isn\'t: error parsing regexp: '
                     "missing closing ): `(`", id="pattern"),
        pytest.param({"type": "string", "pattern": "(?=a)"}, "pattern",
                     'Invalid value: "(?=a)": must be a valid regular expression, but isn\'t: error parsing regexp: '
                     "invalid or unsupported Perl syntax: `(?=`", id="pattern-of-python"),
        pytest.param({"type": "string", "$ref": "#/a"}, "$ref", "Forbidden: $ref is not supported", id="ref"),
        pytest.param({"type": "object", "x-kubernetes-preserve-unknown-fields": False},
                     "x-kubernetes-preserve-unknown-fields", "Invalid value: false: must be true or undefined",
                     id="preserve-false"),
        pytest.param({"type": "string", "x-kubernetes-list-type": "set"}, "type",
                     'Invalid value: "string": must be array if x-kubernetes-list-type is specified', id="no-list"),
        pytest.param({"type": "array", "items": TEXT, "x-kubernetes-list-type": "bag"}, "x-kubernetes-list-type",
                     'Unsupported value: "bag": supported values: "atomic", "set", "map"', id="list-type"),
        pytest.param({**LIST_MAP, "items": {"type": "object"}}, "x-kubernetes-list-map-keys",
                     "Required value: must not be empty if x-kubernetes-list-type is map", id="no-keys"),
        pytest.param(
            {**LIST_MAP, "x-kubernetes-list-map-keys": ["a"], "items": {"type": "object", "properties": {"a": TEXT}}},
            "items.properties[a].default",
            "Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a",
            id="optional-key"),
        pytest.param(
            {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"},
            "items.x-kubernetes-map-type",
            "Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
            id="set-of-objects"),
        pytest.param({"type": "object", "x-kubernetes-embedded-resource": True}, "properties",
                     "Required value: must not be empty if x-kubernetes-embedded-resource is true", id="embedded"),
        pytest.param({"type": "integer", "default": "a"}, "default",
                     'Invalid value: "string":  in body must be of type integer: "string"', id="default"),
        pytest.param({"type": "integer", "default": 1, "x-kubernetes-validations": [{"rule": "self > 1"}]}, "default",
                     "Invalid value: 1: failed rule: self > 1", id="default-and-rule"),
        pytest.param({"type": "object", "properties": {"a": TEXT}, "default": {"b": 1}}, "default",
                     'Invalid value: {"b":1}: must not have unknown fields', id="unpruned-default"),
    ],
)  # fmt: skip
async def test_schema_is_refused(api: Api, schema: Json, field: str, message: str) -> None:
    found = await causes(api, definition(version("v1", spec_schema({"x": schema}))))
    assert any(where == f"{X}.{field}" and said.startswith(message) for where, said in found), found


async def test_paths_name_the_version_where_versions_differ(api: Api) -> None:
    second = version("v2", spec_schema({"x": {}}), storage=False)
    found = await causes(api, definition(version("v1", spec_schema({"x": TEXT})), second))
    assert [field for field, _ in found] == [
        "spec.versions[1].schema.openAPIV3Schema.properties[spec].properties[x].type"
    ]


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        pytest.param("group", "other.io", "spec.group", id="group"),
        pytest.param("scope", "Cluster", "spec.scope", id="scope"),
        pytest.param("kind", "Other", "spec.names.kind", id="kind"),
        pytest.param("plural", "others", "spec.names.plural", id="plural"),
    ],
)
async def test_names_of_an_established_definition_stay(api: Api, path: str, value: str, field: str) -> None:
    await api.post(DEFINITIONS, definition(version("v1", spec_schema({"x": TEXT}))))
    change = {path: value} if path in ("group", "scope") else {"names": {path: value}}
    reply = await api.call(
        "PATCH", f"{DEFINITIONS}/widgets.ex.io", {"spec": change}, content_type="application/merge-patch+json"
    )
    found = {cause["field"]: cause["message"] for cause in reply.body["details"]["causes"]}
    assert found[field] == f'Invalid value: "{value}": field is immutable'


async def test_protected_group_needs_an_approval(api: Api) -> None:
    crd: Any = definition(version("v1", spec_schema({"x": TEXT})))
    crd["spec"]["group"], crd["metadata"]["name"] = "ex.k8s.io", "widgets.ex.k8s.io"
    assert await causes(api, crd) == [(
        "metadata.annotations[api-approved.kubernetes.io]",
        'Required value: protected groups must have approval annotation "api-approved.kubernetes.io", see '
        "https://github.com/kubernetes/enhancements/pull/1111",
    )]  # fmt: skip
    crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": "https://example.dev/1"}
    await api.post(DEFINITIONS, crd)


async def test_what_has_no_effect_is_a_warning(api: Api) -> None:
    schema = spec_schema({"x": {"type": "string", "format": "phone"}})
    reply = await api.call("POST", DEFINITIONS, definition(version("v1", schema)))
    assert (reply.status, reply.headers["Warning"]) == (201, '299 - "unrecognized format \\"phone\\""')


async def test_unknown_fields_of_definitions_are_found(api: Api) -> None:
    crd = definition(version("v1", spec_schema({"x": {"type": "string", "maxLenght": 3}})))
    reply = await api.call("POST", f"{DEFINITIONS}?fieldValidation=Strict", crd)
    assert reply.status == 400
    assert (
        'unknown field "spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.x.maxLenght"'
        in (reply.body["message"])
    )


def test_defaults_change_nothing_the_second_time() -> None:
    crd = definition(version("v1", spec_schema({"x": {"type": "integer", "minimum": 0, "default": 0}})))
    strategy = CustomResourceDefinitionStrategy()
    strategy.default(crd)
    again = deepcopy(crd)
    strategy.default(again)
    assert again == crd
    assert crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["x"] == {
        "type": "integer", "minimum": 0, "default": 0,
    }  # fmt: skip
