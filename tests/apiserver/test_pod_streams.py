"""Connections into pods, up to their upgrade: exec, attach, portforward; and ephemeral containers, which are refused.

Source: kubernetes/pkg/registry/core/pod/strategy.go, streamLocation, PortForwardLocation, validateContainer.
"""

from typing import Any

import pytest

from kcr_devcluster.apiserver.protocol.responses import PodStream
from kcr_devcluster.apiserver.server import HTTPRequest
from tests.kit.api import Api, Reply, pod, pod_binding

pytestmark = pytest.mark.kcr_virtual
POD = "/api/v1/namespaces/default/pods/pa"
NODE = {"metadata": {"name": "n1"}}
UPGRADE = {"connection": "Upgrade", "upgrade": "websocket"}
V5 = {**UPGRADE, "sec-websocket-protocol": "v5.channel.k8s.io,v4.channel.k8s.io"}


async def bound(api: Api, **spec: Any) -> None:
    api.server.streams_unavailable = ""
    made = pod("pa")
    made["spec"] |= {"nodeName": "n1", **spec}
    await api.post("/api/v1/nodes", NODE)
    await api.post("/api/v1/namespaces/default/pods", made)


async def connect(api: Api, target: str, **headers: str) -> Reply:
    return await api.call("GET", f"{POD}/{target}", **headers)


def containers(*names: str) -> list[dict[str, str]]:
    return [{"name": name, "image": "x"} for name in names]


async def test_exec_says_what_the_connection_is_for(api: Api) -> None:
    await bound(api)
    query = "command=sh&command=-c&command=echo+a%26b&stdin=true&stdout=1&stderr=true&tty=true"
    answer = await api.server.handle(HTTPRequest("POST", f"{POD}/exec?{query}", V5))
    stream = answer.upgrade
    assert answer.status == 101
    assert isinstance(stream, PodStream)
    assert (stream.subresource, str(stream.key), stream.container) == ("exec", "default/pa", "c")
    assert stream.command == ("sh", "-c", "echo a&b")
    # A terminal has one output.
    assert (stream.stdin, stream.stdout, stream.stderr, stream.tty) == (True, True, False, True)
    assert stream.protocol == "v5.channel.k8s.io"


async def test_first_protocol_of_the_clients_that_is_spoken_is_taken(api: Api) -> None:
    await bound(api)
    offered = {**UPGRADE, "sec-websocket-protocol": "v9.channel.k8s.io, v4.channel.k8s.io, v5.channel.k8s.io"}
    answer = await api.server.handle(HTTPRequest("GET", f"{POD}/attach?stdout=true", offered))
    assert answer.upgrade is not None
    assert answer.upgrade.protocol == "v4.channel.k8s.io"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        pytest.param("exec?container=z", "container z is not valid for pod pa", id="unknown-container"),
        pytest.param(
            "attach", "a container name must be specified for pod pa, choose one of: [i a b]", id="no-container"
        ),
    ],
)
async def test_container_must_be_one_of_the_pods(api: Api, target: str, message: str) -> None:
    await bound(api, initContainers=containers("i"), containers=containers("a", "b"))
    refused = await connect(api, target, **V5)
    assert (refused.status, refused.body["reason"], refused.body["message"]) == (400, "BadRequest", message)


async def test_only_container_is_meant_beside_init_containers(api: Api) -> None:
    await bound(api, initContainers=containers("i"))
    answer = await api.server.handle(HTTPRequest("GET", f"{POD}/exec?command=ls", V5))
    assert answer.upgrade is not None
    assert answer.upgrade.container == "c"


@pytest.mark.parametrize("subresource", ["exec", "attach", "portforward"])
async def test_pod_must_be_there_and_have_a_node(api: Api, subresource: str) -> None:
    missing = await connect(api, subresource, **V5)
    assert (missing.status, missing.body["message"]) == (404, 'pods "pa" not found')
    await api.post("/api/v1/namespaces/default/pods", pod("pa"))
    unbound = await connect(api, subresource, **V5)
    assert (unbound.status, unbound.body["message"]) == (400, "pod pa does not have a host assigned")
    await api.post(f"{POD}/binding", pod_binding(POD.rpartition("/")[2]))
    lost = await connect(api, subresource, **V5)
    assert (lost.status, lost.body["message"]) == (404, 'nodes "n1" not found')


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        pytest.param({}, "Upgrade request required", id="none"),
        pytest.param({"connection": "Upgrade", "upgrade": "SPDY/3.1"}, "use kubectl 1.31 or newer", id="spdy"),
        pytest.param(UPGRADE, "the client offers the subprotocols []", id="no-protocol"),
        pytest.param(
            {**UPGRADE, "sec-websocket-protocol": "channel.k8s.io"},
            "these are spoken: v5.channel.k8s.io, v4.channel.k8s.io",
            id="old-protocol",
        ),
    ],
)
async def test_request_must_be_for_a_websocket(api: Api, headers: dict[str, str], message: str) -> None:
    await bound(api)
    refused = await connect(api, "exec?command=ls", **headers)
    assert (refused.status, refused.body["reason"]) == (400, "BadRequest")
    assert message in refused.body["message"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        pytest.param("", 'query parameter "ports" is required', id="none"),
        pytest.param("?ports=0", 'unable to parse "0" as a port', id="zero"),
        pytest.param("?ports=80,http", 'unable to parse "http" as a port', id="name"),
        pytest.param(f"?ports={'9' * 5000}", f'unable to parse "{"9" * 5000}" as a port', id="digits"),
        pytest.param("?ports=65536", 'unable to parse "65536" as a port', id="too-high"),
    ],
)
async def test_ports_of_a_client_library_are_checked(api: Api, query: str, message: str) -> None:
    await bound(api)
    refused = await connect(api, f"portforward{query}", **V5)
    assert (refused.status, refused.body["message"]) == (400, message)


async def test_other_methods_are_not_allowed(api: Api) -> None:
    await bound(api)
    for method in ("PUT", "DELETE", "PATCH"):
        assert (await api.call(method, f"{POD}/exec")).status == 405


async def test_cluster_without_processes_says_what_is_needed(api: Api) -> None:
    await bound(api)
    api.server.streams_unavailable = "there is no node"
    refused = await connect(api, "exec?command=ls", **V5)
    assert (refused.status, refused.body["reason"], refused.body["message"]) == (
        501, "NotImplemented", "there is no node",
    )  # fmt: skip


async def test_ephemeral_containers_are_refused_with_a_remedy(api: Api) -> None:
    media = "application/strategic-merge-patch+json"
    assert (await api.call("PATCH", f"{POD}/ephemeralcontainers", {}, content_type=media)).status == 404
    await bound(api)
    patch = {"spec": {"ephemeralContainers": [{"name": "d", "image": "busybox"}]}}
    refused = await api.call("PATCH", f"{POD}/ephemeralcontainers", patch, content_type=media)
    assert (refused.status, refused.body["reason"]) == (501, "NotImplemented")
    assert "kubectl exec -it -n default pa -- sh" in refused.body["message"]
    assert (await api.get(f"{POD}/ephemeralcontainers"))["metadata"]["name"] == "pa"


async def test_discovery_names_the_kinds_of_the_options(api: Api) -> None:
    resources = {one["name"]: one for one in (await api.get("/api/v1"))["resources"]}
    for name, kind in (
        ("exec", "PodExecOptions"), ("attach", "PodAttachOptions"), ("portforward", "PodPortForwardOptions"),
    ):  # fmt: skip
        entry = resources[f"pods/{name}"]
        assert (entry["kind"], entry["verbs"]) == (kind, ["create", "get"])
