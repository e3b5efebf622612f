"""APIServices: local ones are listed, remote ones are stored and not available.

Source: kube-aggregator/pkg/controllers/autoregister; pkg/apis/apiregistration/validation/validation.go.
"""

from typing import Any

import pytest

from tests.kit.api import TABLE, Api, exists
from tests.kit.custom_resources import DEFINITIONS, definition, spec_schema, version

pytestmark = pytest.mark.kcr_virtual

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


def remote(**spec: Any) -> dict[str, Any]:
    """Return an APIService that names another server."""
    made = {"group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "service": {"name": "m", "namespace": "kube-system"}}  # fmt: skip
    return {"metadata": {"name": "v1beta1.metrics.k8s.io"}, "spec": {**made, **spec}}


async def test_each_group_and_version_has_a_local_service(api: Api) -> None:
    rows = {row["cells"][0]: row["cells"][1:3] for row in (await api.get(SERVICES, accept=TABLE))["rows"]}
    groups = {one["groupVersion"] for group in (await api.get("/apis"))["groups"] for one in group["versions"]}
    names = {".".join(reversed(one.split("/"))) for one in groups} - {"v1.apiregistration.k8s.io"}
    assert rows.keys() == names | {"v1."}
    assert set(map(tuple, rows.values())) == {("Local", "True")}
    apps = await api.get(f"{SERVICES}/v1.apps")
    assert (apps["spec"]["groupPriorityMinimum"], apps["spec"]["versionPriority"]) == (17800, 15)


async def test_services_of_custom_resources_come_and_go(api: Api) -> None:
    watch = await api.watch(f"{SERVICES}?resourceVersion=1&fieldSelector=metadata.name=v1.ex.io&")
    await api.post(DEFINITIONS, definition(version("v1", spec_schema({}))))
    assert (await watch.next())["object"]["spec"]["groupPriorityMinimum"] == 1000
    await api.delete(f"{DEFINITIONS}/widgets.ex.io")
    assert (await watch.next())["type"] == "DELETED"
    assert not await exists(api, f"{SERVICES}/v1.ex.io")
    await watch.close()


async def test_remote_service_is_stored_and_not_available(api: Api) -> None:
    reply = await api.call("POST", SERVICES, remote())
    assert reply.headers["Warning"].endswith('requests are not forwarded to other servers"')
    (condition,) = reply.body["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Available", "False")
    assert reply.body["spec"]["service"]["port"] == 443
    rows = {row["cells"][0]: row["cells"][1:3] for row in (await api.get(SERVICES, accept=TABLE))["rows"]}
    assert rows["v1beta1.metrics.k8s.io"] == ["kube-system/m", "False (FailedDiscoveryCheck)"]
    assert (await api.call("GET", "/apis/metrics.k8s.io/v1beta1")).status == 404


async def test_nothing_is_stored_before_it_is_asked_for(api: Api) -> None:
    first = (await api.get("/api/v1/namespaces"))["metadata"]["resourceVersion"]
    await api.get("/apis")
    assert (await api.get("/api/v1/namespaces"))["metadata"]["resourceVersion"] == first
