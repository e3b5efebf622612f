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
