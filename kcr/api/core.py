"""Namespaces, events and configuration; pods, nodes and services as views with the fields that controllers read.

Complete types of the latter are in `kcr.api.full`.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from kcr.api.meta import Condition, FullResource, Key, MicroTime, Object, PodCondition, Resource, ResourceView


class Container(Object):
    """A container as the pod's spec names it. `restart_policy` Always on an init container makes a sidecar."""

    name: str = ""
    image: str = ""
    restart_policy: str | None = None


class PodSpec(Object):
    """The node and the restart policy of a pod."""

    node_name: str = ""
    restart_policy: str = ""
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()


class ContainerStateTerminated(Object):
    """How a container ended."""

    exit_code: int = 0
    signal: int | None = None
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerStateWaiting(Object):
    """Why a container does not run yet, or not again."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(Object):
    """Since when a container runs."""

    started_at: datetime | None = None


class ContainerState(Object):
    """One of the three holds; none means waiting."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Object):
    """The state of a container, reported by the node."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()


class PodStatus(Object):
    """The state of a pod, reported by the node. `phase` may have values of a newer server."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(ResourceView, api_version="v1", plural="pods"):
    """Containers that run together on one node."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class NamespaceSpec(Object):
    """The finalizers of a namespace."""

    finalizers: tuple[str, ...] = ()


class NamespaceStatus(Object):
    """`phase` is Active or Terminating; the conditions name the obstacles of a termination."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Namespace(FullResource, api_version="v1", plural="namespaces", namespaced=False):
    """A scope for names."""

    spec: NamespaceSpec | None = None
    status: NamespaceStatus = NamespaceStatus()


class NodeSpec(Object):
    """Whether new pods may come."""

    unschedulable: bool = False


class NodeStatus(Object):
    """The node's own report."""

    conditions: tuple[Condition, ...] = ()


class Node(ResourceView, api_version="v1", plural="nodes", namespaced=False):
    """A machine that runs pods."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ConfigMap(FullResource, api_version="v1", plural="configmaps"):
    """Configuration as text; `binary_data` is base64."""

    data: Mapping[str, str] = {}
    binary_data: Mapping[str, str] = {}
    immutable: bool | None = None


class Secret(FullResource, api_version="v1", plural="secrets"):
    """Confidential configuration. `data` holds the bytes themselves; on the wire they are base64.

    `string_data` is for writing: the server puts it into `data`.
    """

    data: Mapping[str, bytes] = {}
    string_data: Mapping[str, str] = {}
    type: str = ""
    immutable: bool | None = None

    def __repr__(self) -> str:
        """Return a form for people and logs, without secret values."""
        return f"Secret({self.key}, data={sorted(self.data)})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Do the same for tracebacks that show local variables."""
        return [("key", str(self.key)), ("data", sorted(self.data))]


class SecretData(ResourceView, api_version="v1", kind="Secret", plural="secrets"):
    """Base of the Secrets of one namespace that kcr reads for itself, beside those that a program watches.

    Their rights are those of a Role in that namespace, and none of the program's everywhere.
    """

    data: Mapping[str, bytes] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.key}, data={sorted(self.data)})"


class ServicePort(Object):
    """One port of a service. `target_port` is a number or the name of a container's port."""

    name: str = ""
    protocol: str = ""
    port: int = 0
    target_port: int | str | None = None
    node_port: int | None = None


class ServiceSpec(Object):
    """Which pods answer, at which address and ports."""

    type: str = ""
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    selector: Mapping[str, str] = {}
    ports: tuple[ServicePort, ...] = ()
    external_name: str = ""


class Service(ResourceView, api_version="v1", plural="services"):
    """One name and address for pods that come and go."""

    spec: ServiceSpec = ServiceSpec()


class ObjectReference(Object):
    """Names an object of any kind."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""

    @property
    def key(self) -> Key:
        """The namespace and name of the object."""
        return Key(self.namespace, self.name)


class EventSource(Object):
    """Who reports an event, and from which machine."""

    component: str = ""
    host: str = ""


class EventSeries(Object):
    """How often an event happened again, and when last."""

    count: int = 0
    last_observed_time: MicroTime | None = None


class Event(FullResource, api_version="v1", plural="events"):
    """Something that happened to an object, for people to read. `type` is Normal or Warning."""

    involved_object: ObjectReference = msgspec.field(default_factory=ObjectReference)
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: MicroTime | None = None
    count: int = 0
    type: str = ""
    action: str = ""
    reporting_component: str = ""
    reporting_instance: str = ""
    related: ObjectReference | None = None
    series: EventSeries | None = None

    @property
    def times(self) -> int:
        """How often it has happened, as far as it was written: its count, or that of its series."""
        return max(self.count if self.series is None else self.series.count, 1)

    @property
    def last_seen(self) -> datetime | None:
        """When it happened last, as far as it was written; None for an event without any time.

        Source: kubectl/pkg/cmd/events/events_printer.go, getInterval.
        """
        observed = None if self.series is None else self.series.last_observed_time
        moments = (observed, self.last_timestamp, self.event_time, self.first_timestamp)
        return next((one for one in moments if one is not None), self.metadata.creation_timestamp)


def reference_to(obj: Resource, field_path: str = "") -> ObjectReference:
    """Return a reference to an object, as events carry it.

    Args:
        obj: The object.
        field_path: A part of it, such as `spec.containers{main}`; empty for the whole.
    """
    metadata = obj.metadata
    return ObjectReference(
        kind=obj.resource.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        api_version=obj.resource.api_version,
        resource_version=metadata.resource_version,
        field_path=field_path,
    )
