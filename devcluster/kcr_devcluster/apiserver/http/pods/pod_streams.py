"""Connections into pods: the subresources exec, attach and portforward, up to the upgrade of the connection.

This module has the checks and their errors. The HTTP server upgrades the connection and moves the bytes. A WebSocket
begins with a GET, and needs the right to create all the same (AuthorizePodWebsocketUpgradeCreatePermission).

Source: kubernetes/pkg/registry/core/pod/strategy.go, streamLocation, PortForwardLocation and validateContainer;
kubernetes/staging/src/k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go.
"""

from collections.abc import Mapping

from kcr.api.durations import parse_int
from kcr.api.meta import Key
from kcr_devcluster.apiserver.http.routes import Route
from kcr_devcluster.apiserver.kinds.catalogue import NODES
from kcr_devcluster.apiserver.kinds.kind import SUBRESOURCE_KINDS
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.query import Query
from kcr_devcluster.apiserver.protocol.responses import APIResponse, PodStream, StatusError, bad_request
from kcr_devcluster.apiserver.registry.registry import Registry
from kcr_devcluster.apiserver.storage.admission import (
    CONNECT,
    IN_PROCESS,
    AdmissionAttributes,
    RequestContext,
    review_sent,
)

STREAMS = ("attach", "exec", "portforward")
V4, V5, TUNNEL = "v4.channel.k8s.io", "v5.channel.k8s.io", "SPDY/3.1+portforward.k8s.io"
# The subprotocols that are spoken; empty for none.
PROTOCOLS: Mapping[str, tuple[str, ...]] = {"attach": (V5, V4), "exec": (V5, V4), "portforward": (TUNNEL, V4, "")}
NO_NODE = "this cluster has no node that runs containers"
SIMULATED = (
    "this cluster simulates its containers: exec, attach and port-forward need the runtime that runs processes "
    "(kcr dev --runtime process)"
)


def respond(  # the parts of a request, by name
    registry: Registry,
    route: Route,
    query: Query,
    headers: Mapping[str, str],
    unavailable: str,
    context: RequestContext = IN_PROCESS,
) -> APIResponse:
    """Handle a request for a connection into a pod.

    Args:
        registry: The objects.
        route: The pod, and the subresource.
        query: The options.
        headers: The headers, names in lower case.
        unavailable: Why this cluster has no such connections; empty when it has.
        context: The request.

    Returns:
        A response with code 101 and the purpose of the connection.

    Raises:
        StatusError: 404, no such pod or node; 400, the options do not fit the pod, or no WebSocket is requested; 501,
            this cluster has no such connections.
    """
    options = _reviewed_options(route, query, context)
    pod = registry.find(route.kind, route.namespace, route.name).manifest()
    is_forward = route.subresource == "portforward"
    container = "" if is_forward else container_of(pod, options.get("container", ""))
    node = pod["spec"].get("nodeName")
    if not node:
        raise bad_request(f"pod {route.name} does not have a host assigned")
    registry.find(NODES, "", node)
    if "upgrade" not in headers.get("connection", "").lower():
        raise bad_request("Upgrade request required")
    if unavailable:
        raise not_implemented(unavailable)
    protocol = _protocol(route.subresource, headers)
    stream = PodStream(
        subresource=route.subresource,
        key=Key(route.namespace, route.name),
        uid=pod["metadata"]["uid"],
        protocol=protocol,
        container=container,
        command=tuple(options.get("command") or ()),
        stdin=bool(options.get("stdin")),
        stdout=bool(options.get("stdout")),
        # Source: kubernetes/staging/src/k8s.io/kubelet/pkg/cri/streaming/remotecommand/httpstream.go, NewOptions.
        stderr=bool(options.get("stderr")) and not options.get("tty"),
        tty=bool(options.get("tty")),
        ports=_ports(query) if is_forward and protocol != TUNNEL else (),
    )
    return APIResponse(101, {}, b"", stream)


def _reviewed_options(route: Route, query: Query, context: RequestContext) -> Manifest:
    """Return the options of a connection, as its query states them, after admission."""
    options: Manifest = {"kind": SUBRESOURCE_KINDS[route.subresource][2], "apiVersion": "v1"}
    if route.subresource == "portforward":
        parts = [part for text in query.texts("ports") for part in text.split(",") if part.isdecimal()]
        ports = [port for part in parts if (port := parse_int(part, 32)) is not None]
        options |= {"ports": ports} if ports else {}
    else:
        options |= {name: True for name in ("stdin", "stdout", "stderr", "tty") if query.flag(name)}
        options |= {"container": query.text("container")} if query.text("container") else {}
        options |= {"command": list(query.texts("command"))} if query.has("command") else {}
    place = (route.name, route.namespace, route.name, route.subresource)
    return review_sent(AdmissionAttributes(CONNECT, route.kind, route.kind, *place, context), options)


def container_of(pod: Manifest, requested: str) -> str:
    """Return the container of a pod that a request is for: the one it names, or the only one.

    Raises:
        StatusError: 400, there is no such container, or several and none is named.
    """
    spec, name = pod["spec"], pod["metadata"]["name"]
    mains = [one["name"] for one in spec.get("containers") or ()]
    names = [*(one["name"] for one in spec.get("initContainers") or ()), *mains]
    if requested:
        if requested not in names:
            raise bad_request(f"container {requested} is not valid for pod {name}")
        return requested
    if len(mains) == 1:
        return str(mains[0])
    raise bad_request(f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]")


def not_implemented(message: str) -> StatusError:
    """501: a real cluster does it, this one does not."""
    return StatusError(501, "NotImplemented", message)


def _protocol(subresource: str, headers: Mapping[str, str]) -> str:
    """Return the first subprotocol of the client's that is spoken."""
    if headers.get("upgrade", "").lower() != "websocket":
        raise bad_request(
            f"the embedded server upgrades connections to WebSockets only, not to {headers.get('upgrade', '')}: "
            "use kubectl 1.31 or newer, or a client library that streams over WebSockets"
        )
    offered = [one.strip() for one in headers.get("sec-websocket-protocol", "").split(",")]
    spoken = PROTOCOLS[subresource]
    found = next((one for one in offered if one in spoken), None)
    if found is None:
        raise bad_request(
            f"unable to upgrade: the client offers the subprotocols [{' '.join(filter(None, offered))}], "
            f"and these are spoken: {', '.join(filter(None, spoken))}"
        )
    return found


def _ports(query: Query) -> tuple[int, ...]:
    """Return the ports of a client that names them in the request.

    Source: kubernetes/staging/src/k8s.io/kubelet/pkg/cri/streaming/portforward/websocket.go, NewV4Options.
    """
    texts = [part for text in query.texts("ports") for part in text.split(",")]
    if not texts:
        raise bad_request('query parameter "ports" is required')
    for text in texts:
        if not (text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 1 << 16):
            raise bad_request(f'unable to parse "{text}" as a port')
    return tuple(map(int, texts))
