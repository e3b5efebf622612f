"""Discovery, OpenAPI, version and health: what kubectl asks first."""

from pathlib import Path
from typing import Any

import msgspec.yaml
import pytest

from kcr_devcluster.versions import DEFAULT
from tests.kit.api import NOT_SERVED, Api

pytestmark = pytest.mark.kcr_virtual
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


def web_definition() -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    names = {"plural": "webs", "kind": "Web"}
    return {
        "metadata": {"name": "webs.dx.io"},
        "spec": {"group": "dx.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }


async def test_version_is_complete_and_says_embedded(api: Api) -> None:
    version = await api.get("/version/")
    assert version["gitVersion"] == f"v{DEFAULT}.0+kcr"
    names = ("major", "minor", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform")
    assert all(version[name] is not None for name in names)


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health_is_one_word_or_a_report(api: Api, path: str) -> None:
    assert (await api.call("GET", path, accept="application/vnd.kubernetes.protobuf")).body == b"ok"
    assert (await api.call("GET", f"{path}?verbose")).body.endswith(f"{path[1:]} check passed\n".encode())


async def test_legacy_discovery_names_groups_and_resources(api: Api) -> None:
    assert (await api.get("/api"))["versions"] == ["v1"]
    groups = await api.get("/apis/")
    assert {"apps", "batch"} <= {group["name"] for group in groups["groups"]}
    assert (await api.get("/apis/batch"))["preferredVersion"] == {"groupVersion": "batch/v1", "version": "v1"}
    resources = {one["name"]: one for one in (await api.get("/api/v1"))["resources"]}
    assert resources["pods"]["shortNames"] == ["po"]
    assert resources["pods/log"]["verbs"] == ["get"]
    assert resources["pods/binding"]["kind"] == "Binding"
    assert "deletecollection" not in resources["namespaces"]["verbs"]
    assert all(isinstance(one["singularName"], str) for one in resources.values())


@pytest.mark.recorded
async def test_documents_have_the_order_and_the_hashes_of_a_real_server(api: Api) -> None:
    recorded = msgspec.yaml.decode((Path(__file__).parent / "recordings" / "discovery.yaml").read_bytes())
    for path in NOT_SERVED:
        document, _, plural = path.rpartition("/")
        del recorded[document][plural]
    groups = (await api.get("/apis"))["groups"]
    served = [f"/apis/{one['groupVersion']}" for group in groups for one in group["versions"]]
    assert [path for path in served if path in recorded] == list(recorded)[1:]
    for path, resources in recorded.items():
        found = {one["name"]: one.get("storageVersionHash", "") for one in (await api.get(path))["resources"]}
        assert {name: code for name, code in found.items() if "/" not in name} == resources, path
        assert list(found) == sorted(found)


async def test_definitions_come_last_and_have_a_hash(api: Api) -> None:
    await api.post(DEFINITIONS, web_definition())
    assert (await api.get("/apis"))["groups"][-1]["name"] == "dx.io"
    (web,) = (await api.get("/apis/dx.io/v1"))["resources"]
    assert web["storageVersionHash"] == "M3XTW+8vun4="


async def test_aggregated_discovery_tells_all_at_once(api: Api) -> None:
    reply = await api.call("GET", "/apis", accept=AGGREGATED)
    assert reply.headers["Content-Type"] == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    (batch,) = (group for group in reply.body["items"] if group["metadata"]["name"] == "batch")
    cron_jobs, jobs = batch["versions"][0]["resources"]
    assert (jobs["resource"], jobs["scope"], jobs["categories"]) == ("jobs", "Namespaced", ["all"])
    assert jobs["subresources"][0]["subresource"] == "status"
    assert (cron_jobs["shortNames"], cron_jobs["categories"]) == (["cj"], ["all"])
    assert cron_jobs["subresources"][0]["subresource"] == "status"
    again = await api.call("GET", "/apis", accept=AGGREGATED, if_none_match=reply.headers["ETag"])
    assert (again.status, again.body) == (304, b"")


async def test_core_group_has_no_name(api: Api) -> None:
    reply = await api.call("GET", "/api", accept=AGGREGATED)
    assert reply.body["items"][0]["metadata"] == {}
