"""Addresses and node ports that the server allocates to Services, and objects that are too large to store.

Source: kubernetes/pkg/registry/core/service/storage/alloc.go.
"""

from typing import Any

import pytest

from tests.kit.api import Api

pytestmark = pytest.mark.kcr_virtual
SERVICES = "/api/v1/namespaces/default/services"


def service(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


async def test_addresses_are_allocated_once_and_freed(api: Api) -> None:
    first, second = [await api.post(SERVICES, service(name)) for name in ("a", "b")]
    assert (first["spec"]["clusterIP"], second["spec"]["clusterIPs"]) == ("10.96.1.1", ["10.96.1.2"])
    taken = await api.call("POST", SERVICES, service("c", clusterIP="10.96.1.1"))
    words = 'spec.clusterIPs: Invalid value: ["10.96.1.1"]: failed to allocate IP 10.96.1.1: '
    assert taken.body["message"] == f'Service "c" is invalid: {words}provided IP is already allocated'
    await api.delete(f"{SERVICES}/a")
    assert (await api.post(SERVICES, service("c")))["spec"]["clusterIP"] == "10.96.1.1"


async def test_update_keeps_what_was_allocated(api: Api) -> None:
    made = await api.post(SERVICES, service("a", type="NodePort"))
    kept = await api.put(f"{SERVICES}/a", service("a", type="NodePort", selector={"a": "b"}))
    assert (kept["spec"]["clusterIP"], kept["spec"]["ports"]) == (made["spec"]["clusterIP"], made["spec"]["ports"])
    assert kept["spec"]["ports"][0]["nodePort"] == 30086
    inner = await api.patch(f"{SERVICES}/a", {"spec": {"type": "ClusterIP"}})
    assert "nodePort" not in inner["spec"]["ports"][0]
    assert "externalTrafficPolicy" not in inner["spec"]


async def test_object_beyond_what_etcd_takes_is_refused(api: Api) -> None:
    note = {f"a.io/{number}": "x" * 1000 for number in range(200)}
    body = {"metadata": {"name": "a", "annotations": note}, "spec": {"x": 1}, "data": {"a": "x" * 1_000_000}}
    assert (await api.call("POST", "/api/v1/namespaces/default/configmaps", body)).status == 201
    for length, words in (
        (1_600_000, "etcdserver: request is too large"),
        (2_200_000, "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2200"),
    ):
        pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i", "args": ["x" * length]}]}}
        reply = await api.call("POST", "/api/v1/namespaces/default/pods", pod)
        assert (reply.status, reply.body["message"][: len(words)]) == (500, words)


async def test_new_service_warns_that_its_address_leads_nowhere(api: Api) -> None:
    """A warning of this server: a real one has kube-proxy."""
    made = await api.call("POST", SERVICES, service("a"))
    assert made.headers["Warning"].startswith('299 - "the address of a Service leads nowhere here: in kcr dev, ')
    headless = service("b")
    headless["spec"]["clusterIP"] = "None"
    assert "Warning" not in (await api.call("POST", SERVICES, headless)).headers
    changed = await api.call("PATCH", f"{SERVICES}/a", {"spec": {"selector": {"a": "b"}}})
    assert "Warning" not in changed.headers


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"ipFamilyPolicy": "b"}, "spec.ipFamilyPolicy"),
        ({"ipFamilies": ["a"]}, "spec.ipFamilies[0]"),
        ({"clusterIP": "x"}, "spec.clusterIPs[0]"),
    ],
)
async def test_errors_of_addresses_come_before_all_others(api: Api, spec: dict[str, Any], field: str) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"type": "c", "sessionAffinity": "d", **spec}}
    reply = await api.call("POST", SERVICES, body)
    assert [cause["field"] for cause in reply.body["details"]["causes"]] == [field]
