"""What the server says of its kinds (api-server §4)."""

import re
from typing import Any

import msgspec
import pytest

from tests.kit.api import Api
from tests.kit.custom_resources import DEFINITIONS, definition, spec_schema, version

pytestmark = pytest.mark.kcr_virtual

REFERENCES = re.compile(r'"\$ref":"#/components/schemas/([^"]+)"')
POD = "io.k8s.api.core.v1.Pod"


async def document(api: Api, group_version: str) -> Any:
    index = await api.get("/openapi/v3?timeout=32s")
    return await api.get(index["paths"][group_version]["serverRelativeURL"])


async def test_kubectl_finds_that_the_server_validates(api: Api) -> None:  # §4.2
    paths = (await document(api, "apis/batch/v1"))["paths"]
    for kind in ("Job", "CronJob"):
        patch = paths[f"/apis/batch/v1/namespaces/{{namespace}}/{kind.lower()}s/{{name}}"]["patch"]
        assert patch["x-kubernetes-group-version-kind"] == {"group": "batch", "version": "v1", "kind": kind}
        assert patch["parameters"][0]["name"] == "fieldValidation"
        # With a body named here, kubectl would take its merge keys from this document.
        assert "requestBody" not in patch


async def test_collections_have_the_parameter_of_shards(api: Api) -> None:  # §32
    paths = (await document(api, "api/v1"))["paths"]
    actions = {method: one["x-kubernetes-action"] for method, one in paths["/api/v1/nodes"].items()}
    assert actions == {"get": "list", "delete": "deletecollection"}
    assert paths["/api/v1/nodes"]["get"]["parameters"] == [
        {"name": "shardSelector", "in": "query", "schema": {"type": "string"}}
    ]
    assert list(paths["/api/v1/namespaces"]) == ["get"]


async def test_every_served_group_version_has_a_document(api: Api) -> None:
    index = (await api.get("/openapi/v3"))["paths"]
    groups = (await api.get("/apis"))["groups"]
    served = {f"apis/{version['groupVersion']}" for group in groups for version in group["versions"]}
    assert set(index) == served | {"api/v1"}


async def test_documents_hold_all_that_they_refer_to(api: Api) -> None:  # §4.3
    for group_version in (await api.get("/openapi/v3"))["paths"]:
        found = await document(api, group_version)
        referred = set(REFERENCES.findall(msgspec.json.encode(found).decode()))
        assert referred <= set(found["components"]["schemas"]), group_version


@pytest.mark.parametrize(
    ("group_version", "name", "field", "wanted"),
    [
        pytest.param("api/v1", "core.v1.PodSpec", "restartPolicy", {"type": "string", "default": "Always"}, id="text"),
        pytest.param("api/v1", "core.v1.PodSpec", "priority", {"type": "integer", "format": "int32"}, id="number"),
        pytest.param(
            "api/v1", "core.v1.PodSpec", "containers",
            {
                "type": "array", "items": {"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"},
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name",
            },
            id="list-map",
        ),
        pytest.param(
            "api/v1", "core.v1.ResourceRequirements", "limits",
            {
                "type": "object",
                "additionalProperties": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"},
            },
            id="map",
        ),
        pytest.param(
            "apis/batch/v1", "batch.v1.JobStatus", "startTime",
            {"allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Time"}]}, id="time",
        ),
    ],
)  # fmt: skip
async def test_fields_have_types_and_list_keys(
    api: Api, group_version: str, name: str, field: str, wanted: dict[str, Any]
) -> None:
    found = (await document(api, group_version))["components"]["schemas"]["io.k8s.api." + name]["properties"][field]
    assert found.pop("description")
    assert found == wanted


async def test_kinds_say_which_they_are(api: Api) -> None:
    pod = (await document(api, "api/v1"))["components"]["schemas"][POD]
    assert pod["x-kubernetes-group-version-kind"] == [{"group": "", "kind": "Pod", "version": "v1"}]
    assert pod["description"].startswith("Pod is a collection of containers")


async def test_second_version_is_one_document_of_json(api: Api) -> None:  # §4.4
    found = await api.get("/openapi/v2")
    container = found["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]["items"]
    assert (found["swagger"], container) == ("2.0", {"$ref": "#/definitions/io.k8s.api.core.v1.Container"})
    quantity = found["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"]
    assert (quantity["type"], "oneOf" in quantity) == ("string", False)
    protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    # kubectl asks for this where it finds no kind; with an answer it says that the kind is not installed.
    empty = await api.call("GET", "/openapi/v2", accept=protobuf)
    assert (empty.status, empty.headers["Content-Type"]) == (200, protobuf.replace("@", "."))


async def test_second_version_keeps_defaults_as_they_are(api: Api) -> None:
    default = {"properties": "x", "nullable": True, "oneOf": ["y"]}
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "default": default}
    await api.post(DEFINITIONS, definition(version("v1", spec_schema({"nullable": {"type": "string"}, "free": free}))))
    widget = (await api.get("/openapi/v2"))["definitions"]["io.ex.v1.Widget"]
    fields = widget["properties"]["spec"]["properties"]
    assert (fields["free"]["default"], fields["nullable"]) == (default, {"type": "string"})


async def test_unknown_document_is_not_found(api: Api) -> None:
    assert (await api.call("GET", "/openapi/v3/apis/none/v1")).status == 404


HEAD = ("apiVersion", "kind", "metadata")
FREE = {"x-kubernetes-preserve-unknown-fields": True}


async def of_widget(api: Api, schema: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema of a definition in the second and the third version, without its group and version."""
    await api.post(DEFINITIONS, definition(version("v1", schema)))
    old = (await api.get("/openapi/v2"))["definitions"]["io.ex.v1.Widget"]
    new = (await document(api, "apis/ex.io/v1"))["components"]["schemas"]["io.ex.v1.Widget"]
    for one in (old, new):
        assert one.pop("x-kubernetes-group-version-kind") == [{"group": "ex.io", "kind": "Widget", "version": "v1"}]
    return old, new


async def test_definition_without_a_schema_is_any_object_in_the_second_version(api: Api) -> None:
    # Source: kubernetes/test/e2e/apimachinery/crd_publish_openapi.go: kubectl shows no field.
    old, new = await of_widget(api, {"type": "object", **FREE})
    assert old == {"type": "object"}
    assert (new["type"], new["x-kubernetes-preserve-unknown-fields"], sorted(new["properties"])) == (
        "object", True, sorted(HEAD)
    )  # fmt: skip


async def test_second_version_has_no_types_that_kubectl_cannot_read(api: Api) -> None:
    # Source: apiextensions-apiserver/pkg/controller/openapi/v2/conversion.go.
    texts = {"type": "array", "items": {"type": "string"}}
    fields = {
        "free": {"type": "object", "description": "d", "properties": {"a": {"type": "string"}}, **FREE},
        "none": {"type": "object", "nullable": True, "properties": {"a": {"type": "string"}}},
        "list": {**texts, "nullable": True},
        "either": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "map": {"type": "object", "additionalProperties": texts},
    }
    schema = spec_schema(fields)
    schema["properties"]["spec"]["required"] = ["free", "none"]
    old, new = await of_widget(api, schema)
    assert new["properties"]["spec"] == {"type": "object", "required": ["free", "none"], "properties": fields}
    assert old["properties"]["spec"] == {
        "type": "object", "required": ["free"], "properties": {
            "free": {"description": "d", **FREE}, "none": {}, "list": {}, "map": fields["map"],
            "either": {"x-kubernetes-int-or-string": True},
        },
    }  # fmt: skip
    # A reference has its description beside it.
    assert old["properties"]["metadata"].keys() == {"description", "$ref"}


async def test_embedded_objects_are_described_as_objects(api: Api) -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, **FREE}
    old, new = await of_widget(api, spec_schema({"template": embedded}))
    assert old["properties"]["spec"]["properties"]["template"] == {"x-kubernetes-embedded-resource": True, **FREE}
    template = new["properties"]["spec"]["properties"]["template"]
    assert (template["required"], sorted(template["properties"])) == (["kind", "apiVersion"], sorted(HEAD))
    assert template["properties"]["kind"]["description"].startswith("kind is a string value")


async def test_standard_fields_are_described_as_in_the_published_document(api: Api) -> None:
    _, new = await of_widget(api, spec_schema({}))
    schemas = (await document(api, "api/v1"))["components"]["schemas"]
    assert {name: new["properties"][name] for name in HEAD} == {
        name: schemas["io.k8s.api.core.v1.ConfigMap"]["properties"][name] for name in HEAD
    }
