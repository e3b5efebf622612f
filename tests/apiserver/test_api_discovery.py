"""Discovery, OpenAPI, version and health: what kubectl asks first."""

import pytest

from tests.kit.api import Api

pytestmark = pytest.mark.kcr_virtual
AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


async def test_version_is_complete_and_says_embedded(api: Api) -> None:
    version = await api.get("/version/")
    assert version["gitVersion"] == "v1.36.0+kcr"
    names = ("major", "minor", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform")
    assert all(version[name] is not None for name in names)


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health_is_one_word_or_a_report(api: Api, path: str) -> None:
    assert (await api.call("GET", path, accept="application/vnd.kubernetes.protobuf")).body == b"ok"
    assert (await api.call("GET", f"{path}?verbose")).body.endswith(f"{path[1:]} check passed\n".encode())


async def test_legacy_discovery_names_groups_and_resources(api: Api) -> None:
    assert (await api.get("/api"))["versions"] == ["v1"]
    groups = await api.get("/apis/")
    names = [group["name"] for group in groups["groups"]]
    assert names == sorted(names)
    assert {"apps", "batch", "coordination.k8s.io", "rbac.authorization.k8s.io"} <= set(names)
    assert (await api.get("/apis/batch"))["preferredVersion"] == {"groupVersion": "batch/v1", "version": "v1"}
    resources = {one["name"]: one for one in (await api.get("/api/v1"))["resources"]}
    assert resources["pods"]["shortNames"] == ["po"]
    assert resources["pods/log"]["verbs"] == ["get"]
    assert resources["pods/binding"]["kind"] == "Binding"
    assert "deletecollection" not in resources["namespaces"]["verbs"]
    assert all(isinstance(one["singularName"], str) for one in resources.values())


async def test_aggregated_discovery_tells_all_at_once(api: Api) -> None:
    reply = await api.call("GET", "/apis", accept=AGGREGATED)
    assert reply.headers["Content-Type"] == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    (batch,) = (group for group in reply.body["items"] if group["metadata"]["name"] == "batch")
    jobs, cron_jobs = batch["versions"][0]["resources"]
    assert (jobs["resource"], jobs["scope"], jobs["categories"]) == ("jobs", "Namespaced", ["all"])
    assert jobs["subresources"][0]["subresource"] == "status"
    assert (cron_jobs["shortNames"], cron_jobs["categories"]) == (["cj"], ["all"])
    assert cron_jobs["subresources"][0]["subresource"] == "status"
    again = await api.call("GET", "/apis", accept=AGGREGATED, if_none_match=reply.headers["ETag"])
    assert (again.status, again.body) == (304, b"")


async def test_core_group_has_no_name(api: Api) -> None:
    reply = await api.call("GET", "/api", accept=AGGREGATED)
    assert reply.body["items"][0]["metadata"] == {}
