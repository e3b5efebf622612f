"""Names of Services and of their members, as values.

Source: kubernetes/dns/docs/specification.md.
"""

from typing import Any

import pytest

from kcr.api.full.core_v1 import Service, ServiceSpec
from kcr.api.meta import Key, ObjectMeta
from kcr_devcluster.cluster.names.objects import (
    SERVICE_NAME,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
)
from kcr_devcluster.cluster.names.records import Found, Names, host_lines, look_up, names_of

PORTS = (EndpointPort(name="http", protocol="TCP", port=8080),)


def service(name: str, namespace: str = "shop", **spec: Any) -> Service:
    return Service(metadata=ObjectMeta(name=name, namespace=namespace), spec=ServiceSpec(**spec))


def endpoint(address: str, hostname: str | None = None, ready: bool | None = True) -> Endpoint:
    return Endpoint(addresses=(address,), hostname=hostname, conditions=EndpointConditions(ready=ready))


def sliced(name: str, *endpoints: Endpoint, kind: str = "IPv4") -> EndpointSlice:
    metadata = ObjectMeta(name=f"{name}-x", namespace="shop", labels={SERVICE_NAME: name})
    return EndpointSlice(metadata=metadata, address_type=kind, endpoints=endpoints, ports=PORTS)


PEERS = sliced(
    "peers", endpoint("127.1.0.2", "p-1"), endpoint("127.1.0.1", "p-0", None), endpoint("127.1.0.3", ready=False)
)
NAMES: Names = names_of(
    [
        service("peers", cluster_ip="None"),
        service("web", cluster_ip="10.96.0.5"),
        service("out", type="ExternalName", external_name="example.com"),
        service("empty"),
    ],
    [PEERS, sliced("web", endpoint("127.1.0.9")), sliced("web", endpoint("fd00::1"), kind="IPv6"), sliced("gone")],
)


def test_names_are_those_of_services() -> None:
    assert list(NAMES) == [Key("shop", name) for name in ("empty", "out", "peers", "web")]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("peers.shop.svc", Found(("127.1.0.1", "127.1.0.2")), id="ready-members"),
        pytest.param("p-1.peers.shop.svc", Found(("127.1.0.2",)), id="member"),
        pytest.param("p-2.peers.shop.svc", None, id="no-member"),
        pytest.param("web.shop.svc", Found(("127.1.0.9",)), id="with-an-address"),
        pytest.param("127-1-0-9.web.shop.svc", None, id="no-members-but-of-headless-ones"),
        pytest.param("empty.shop.svc", Found(), id="without-pods"),
        pytest.param("out.shop.svc", Found(external="example.com"), id="external"),
        pytest.param(
            "_http._tcp.peers.shop.svc",
            Found(
                services=(
                    (8080, "p-0.peers.shop.svc.cluster.local"),
                    (8080, "p-1.peers.shop.svc.cluster.local"),
                )
            ),
            id="port",
        ),
        pytest.param(
            "_http._tcp.web.shop.svc", Found(services=((8080, "web.shop.svc.cluster.local"),)), id="port-of-one"
        ),
        pytest.param("_other._tcp.peers.shop.svc", None, id="no-port"),
        pytest.param("peers.other.svc", None, id="other-namespace"),
        pytest.param("peers.shop", None, id="no-service"),
        pytest.param("a.b.c.peers.shop.svc", None, id="too-deep"),
    ],
)
def test_name_is_looked_up(name: str, expected: Found | None) -> None:
    assert look_up(NAMES, f"{name}.cluster.local") == expected


def test_member_without_a_hostname_is_named_by_its_address() -> None:
    names = names_of([service("peers", cluster_ip="None")], [sliced("peers", endpoint("127.1.0.7"))])
    assert look_up(names, "127-1-0-7.peers.shop.svc.cluster.local") == Found(("127.1.0.7",))


def test_short_names_are_for_the_own_namespace() -> None:
    names = names_of([service("peers", cluster_ip="None")], [sliced("peers", endpoint("127.1.0.2", "p-1"))])
    full = "p-1.peers.shop.svc.cluster.local p-1.peers.shop.svc p-1.peers.shop"
    whole = "peers.shop.svc.cluster.local peers.shop.svc peers.shop"
    assert host_lines(names, "shop") == [f"127.1.0.2\t{full} p-1.peers {whole} peers"]
    assert host_lines(names, "other") == [f"127.1.0.2\t{full} {whole}"]
