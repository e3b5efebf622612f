"""Definitions that are refused, in the words of kube-apiserver.

Source: api-server §21.1; kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/
validation.go; pkg/apiserver/schema/{validation,complete}.go.
"""

from copy import deepcopy
from typing import Any

import pytest

from kcr_devcluster.apiserver.kinds.definitions.strategy import CustomResourceDefinitionStrategy
from tests.kit.api import Api
from tests.kit.custom_resources import DEFINITIONS, Json, definition, spec_schema, version

pytestmark = pytest.mark.kcr_virtual
TEXT: Json = {"type": "string"}


async def causes(api: Api, crd: Json) -> list[tuple[str, str]]:
    reply = await api.call("POST", DEFINITIONS, crd)
    assert reply.status == 422, reply.body
    return [(cause["field"], cause["message"]) for cause in reply.body["details"]["causes"]]


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
