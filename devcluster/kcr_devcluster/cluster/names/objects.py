"""Pods as names need them, and EndpointSlices."""

from collections.abc import Mapping
from typing import Any

from msgspec import field

from kcr.api.core import Container, ObjectReference, Pod, PodSpec, PodStatus
from kcr.api.full.core_v1 import ContainerPort, PodIP
from kcr.api.meta import FullResource, Object

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
CONTROLLER = "endpointslice-controller.k8s.io"


class NamedContainer(Container):
    """A container with its ports."""

    ports: tuple[ContainerPort, ...] = ()


class NamedPodSpec(PodSpec):
    """The fields that give a pod its name."""

    containers: tuple[NamedContainer, ...] = ()
    hostname: str = ""
    subdomain: str = ""


class NamedPodStatus(PodStatus):
    """The status with the addresses."""

    pod_ips: tuple[PodIP, ...] = field(default=(), name="podIPs")


class NamedPod(Pod):
    """A pod."""

    spec: NamedPodSpec = NamedPodSpec()
    status: NamedPodStatus = NamedPodStatus()


class EndpointConditions(Object):
    """The state of an endpoint; None is unknown, which counts as ready."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class Endpoint(Object):
    """The addresses of one pod."""

    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions = EndpointConditions()
    hostname: str | None = None
    target_ref: ObjectReference | None = None
    node_name: str | None = None
    zone: str | None = None
    hints: Mapping[str, Any] = {}
    deprecated_topology: Mapping[str, str] = {}


class EndpointPort(Object):
    """A port of all endpoints of a slice."""

    name: str | None = None
    protocol: str | None = None
    port: int | None = None
    app_protocol: str | None = None


class EndpointSlice(FullResource, api_version="discovery.k8s.io/v1", plural="endpointslices"):
    """Some endpoints of a Service, which all have the same ports."""

    address_type: str = ""
    endpoints: tuple[Endpoint, ...] = ()
    ports: tuple[EndpointPort, ...] = ()
