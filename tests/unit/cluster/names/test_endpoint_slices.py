"""The slices of a Service, as values.

Source: kubernetes/staging/src/k8s.io/endpointslice/utils.go.
"""

from datetime import UTC, datetime
from typing import Any

import pytest

from kcr.api.full.core_v1 import ContainerPort, PodIP, Service, ServicePort, ServiceSpec
from kcr.api.meta import ObjectMeta, PodCondition
from kcr_devcluster.cluster.names.endpoint_slices import MAX_ENDPOINTS, desired_slices, has_slices
from kcr_devcluster.cluster.names.objects import (
    Endpoint,
    EndpointPort,
    NamedContainer,
    NamedPod,
    NamedPodSpec,
    NamedPodStatus,
)

HTTP = ServicePort(name="http", port=80, target_port="web", protocol="TCP")
DELETED = datetime(2026, 1, 1, tzinfo=UTC)


def service(**spec: Any) -> Service:
    metadata = ObjectMeta(name="web", namespace="shop", labels={"team": "a"})
    return Service(metadata=metadata, spec=ServiceSpec(selector={"app": "web"}, **spec))


def pod(
    name: str,
    ip: str = "127.1.0.1",
    *,
    ready: bool = True,
    phase: str = "Running",
    web: int = 8080,
    deleted: datetime | None = None,
    **spec: Any,
) -> NamedPod:
    ports = (ContainerPort(name="web", container_port=web),) if web else ()
    return NamedPod(
        metadata=ObjectMeta(name=name, namespace="shop", uid=f"uid-{name}", deletion_timestamp=deleted),
        spec=NamedPodSpec(containers=(NamedContainer(name="c", ports=ports),), node_name="n", **spec),
        status=NamedPodStatus(
            phase=phase,
            conditions=(PodCondition(type="Ready", status=str(ready)),),
            pod_ips=(PodIP(ip=ip),) if ip else (),
        ),
    )


def only(made: Service, *pods: NamedPod) -> Endpoint:
    ((endpoint,),) = (one.endpoints for one in desired_slices(made, pods))
    return endpoint


def test_slice_has_the_labels_of_upstream() -> None:
    (found,) = desired_slices(service(cluster_ip="None"), ())
    assert found.metadata.labels == {
        "team": "a",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        "service.kubernetes.io/headless": "",
    }
    assert (found.metadata.generate_name, found.address_type, found.endpoints, found.ports) == ("web-", "IPv4", (), ())


@pytest.mark.parametrize(
    ("given", "publishes", "expected"),
    [
        pytest.param(pod("a"), False, (True, True, False), id="ready"),
        pytest.param(pod("a", ready=False), False, (False, False, False), id="not-ready"),
        pytest.param(pod("a", ready=False), True, (True, False, False), id="published"),
        pytest.param(pod("a", deleted=DELETED), False, (False, True, True), id="terminating"),
    ],
)
def test_conditions_follow_the_pod(given: NamedPod, publishes: bool, expected: tuple[bool, ...]) -> None:
    conditions = only(service(publish_not_ready_addresses=publishes), given).conditions
    assert (conditions.ready, conditions.serving, conditions.terminating) == expected


@pytest.mark.parametrize("given", [pod("a", phase="Succeeded"), pod("a", phase="Failed"), pod("a", ip="")])
def test_pod_without_a_process_or_an_address_is_no_endpoint(given: NamedPod) -> None:
    assert [one.endpoints for one in desired_slices(service(), [given])] == [()]


def test_endpoint_names_its_pod_and_its_node() -> None:
    endpoint = only(service(), pod("a"))
    assert endpoint.target_ref is not None
    reference = endpoint.target_ref
    assert (reference.kind, reference.namespace, reference.name, reference.uid) == ("Pod", "shop", "a", "uid-a")
    assert (reference.resource_version, endpoint.node_name, endpoint.addresses) == ("", "n", ("127.1.0.1",))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"hostname": "a-0", "subdomain": "web"}, "a-0"),
        ({"hostname": "a-0", "subdomain": "other"}, None),
        ({"subdomain": "web"}, None),
    ],
)
def test_hostname_is_within_the_pods_own_subdomain(spec: dict[str, Any], expected: str | None) -> None:
    assert only(service(), pod("a", **spec)).hostname == expected


def test_pods_with_other_ports_are_in_slices_of_their_own() -> None:
    found = desired_slices(service(ports=(HTTP,)), [pod("a"), pod("b", web=9090), pod("c", web=0)])
    assert [(one.ports, len(one.endpoints)) for one in found] == [
        ((EndpointPort(name="http", protocol="TCP", port=8080),), 1),
        ((EndpointPort(name="http", protocol="TCP", port=9090),), 1),
        ((), 1),
    ]


def test_port_without_a_target_is_the_services_own() -> None:
    (found,) = desired_slices(service(ports=(ServicePort(port=80, app_protocol="h2c"),)), [pod("a")])
    assert found.ports == (EndpointPort(name="", protocol="TCP", port=80, app_protocol="h2c"),)


def test_slices_are_of_a_limited_size() -> None:
    pods = [pod(f"p{number}", f"127.1.1.{number}") for number in range(MAX_ENDPOINTS + 1)]
    assert [len(one.endpoints) for one in desired_slices(service(), pods)] == [MAX_ENDPOINTS, 1]


def test_service_without_pods_of_its_own_has_no_slices() -> None:
    assert has_slices(service())
    assert not has_slices(service(type="ExternalName"))
    assert not has_slices(Service())
