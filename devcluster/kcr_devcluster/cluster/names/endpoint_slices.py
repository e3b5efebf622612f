"""EndpointSlice controller: writes the addresses of a Service's pods, for names and for clients that look for them.

Slices are filled in the order of the pods' names, and have no topology hints. Services without a selector have no
slices but those of their users.

Source: kubernetes/staging/src/k8s.io/endpointslice/reconciler.go, utils.go;
kubernetes/pkg/controller/endpointslice/endpointslice_controller.go.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from msgspec.structs import replace

from kcr.api.core import reference_to
from kcr.api.full.core_v1 import Service
from kcr.api.meta import Key, ObjectMeta
from kcr.api.pods import is_ready, is_terminal
from kcr.api.selectors import LabelSelector, matches
from kcr.controller import Result, owned, watch
from kcr.dependents import set_controller
from kcr.errors import ApiError, NotFoundError, is_namespace_ending
from kcr.manager import Manager
from kcr_devcluster.cluster.names.objects import (
    CONTROLLER,
    MANAGED_BY,
    SERVICE_NAME,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
    NamedPod,
)

MAX_ENDPOINTS = 100
_HEADLESS = "service.kubernetes.io/headless"

Ports = tuple[EndpointPort, ...]


class EndpointSliceReconciler:
    """Reconciles the slices of one Service; level-triggered and idempotent."""

    def __init__(self, manager: Manager) -> None:
        self._client = manager.client
        self._services, self._pods = manager.store(Service), manager.store(NamedPod)
        self._slices = manager.store(EndpointSlice)

    def services_of(self, pod: NamedPod) -> Iterator[Key]:
        """Yield the Services that select a pod."""
        for service in self._services.list(pod.metadata.namespace):
            if has_slices(service) and _selects(service, pod):
                yield service.key

    async def reconcile(self, key: Key) -> Result:
        """Create, change and delete slices until they have the pods of the Service."""
        service = self._services.get(key)
        # Those of a deleted Service are garbage collected.
        if service is None or service.metadata.deletion_timestamp is not None or not has_slices(service):
            return Result()
        pods = sorted((pod for pod in self._pods.list(key.namespace) if _selects(service, pod)), key=_name)
        left = [one for one in self._slices.by_index("owner", service.metadata.uid) if is_managed(one)]
        try:
            for wanted in desired_slices(service, pods):
                await self._ensure(service, wanted, left)
            for unwanted in left:
                with suppress(NotFoundError):
                    await self._client.delete(EndpointSlice, unwanted.key, uid=unwanted.metadata.uid)
        except ApiError as error:
            if not is_namespace_ending(error):
                raise
        return Result()

    async def _ensure(self, service: Service, wanted: EndpointSlice, left: list[EndpointSlice]) -> None:
        """Write one slice: into one of those that are left and have its ports, else a new one."""
        found = next((one for one in left if one.ports == wanted.ports), None)
        if found is None:
            await self._client.create(set_controller(wanted, service))
            return
        left.remove(found)
        labels = {**found.metadata.labels, **wanted.metadata.labels}
        changed = replace(found, endpoints=wanted.endpoints, metadata=replace(found.metadata, labels=labels))
        with suppress(NotFoundError):  # deleted meanwhile: a watch event follows
            await self._client.patch(found, changed)


def has_slices(service: Service) -> bool:
    """Return whether the controller writes the slices of a Service."""
    return bool(service.spec.selector) and service.spec.type != "ExternalName"


def is_managed(found: EndpointSlice) -> bool:
    """Return whether a slice is the controller's own."""
    return found.metadata.labels.get(MANAGED_BY) == CONTROLLER


def desired_slices(service: Service, pods: Iterable[NamedPod]) -> list[EndpointSlice]:
    """Return the slices of a Service: at least one, and one for each set of ports.

    Args:
        service: The Service.
        pods: The pods that it selects, in order.
    """
    by_ports: dict[Ports, list[Endpoint]] = {}
    for pod in pods:
        if pod.status.pod_ips and not is_terminal(pod):
            by_ports.setdefault(_ports(service, pod), []).append(_endpoint(service, pod))
    labels = {**service.metadata.labels, SERVICE_NAME: service.metadata.name, MANAGED_BY: CONTROLLER}
    if service.spec.cluster_ip == "None":
        labels[_HEADLESS] = ""
    metadata = ObjectMeta(
        generate_name=f"{service.metadata.name}-", namespace=service.metadata.namespace, labels=labels
    )
    return [
        EndpointSlice(metadata=metadata, address_type="IPv4", endpoints=tuple(chunk), ports=ports)
        for ports, endpoints in (by_ports or {(): []}).items()
        for chunk in _chunks(endpoints)
    ]


def _chunks(endpoints: Sequence[Endpoint]) -> Iterator[Sequence[Endpoint]]:
    for start in range(0, max(len(endpoints), 1), MAX_ENDPOINTS):
        yield endpoints[start : start + MAX_ENDPOINTS]


def _endpoint(service: Service, pod: NamedPod) -> Endpoint:
    serving, terminating = is_ready(pod), pod.metadata.deletion_timestamp is not None
    ready = service.spec.publish_not_ready_addresses or (serving and not terminating)
    is_named = pod.spec.hostname and pod.spec.subdomain == service.metadata.name
    reference = reference_to(pod)
    return Endpoint(
        addresses=(pod.status.pod_ips[0].ip,),
        conditions=EndpointConditions(ready=ready, serving=serving, terminating=terminating),
        hostname=pod.spec.hostname if is_named else None,
        # Without the version, which changes with each status.
        target_ref=replace(reference, api_version="", resource_version=""),
        node_name=pod.spec.node_name or None,
    )


def _ports(service: Service, pod: NamedPod) -> Ports:
    """Return the ports of a pod behind those of a Service; a name that the pod does not have is left out."""
    found = []
    for port in service.spec.ports:
        target = port.target_port or port.port
        if isinstance(target, str):
            target = next(
                (
                    one.container_port
                    for container in pod.spec.containers
                    for one in container.ports
                    if (one.name, one.protocol or "TCP") == (target, port.protocol or "TCP")
                ),
                0,
            )
        if target:
            found.append(
                EndpointPort(
                    name=port.name or "", protocol=port.protocol or "TCP", port=target, app_protocol=port.app_protocol
                )
            )
    return tuple(found)


def _selects(service: Service, pod: NamedPod) -> bool:
    return matches(LabelSelector(match_labels=service.spec.selector), pod.metadata.labels)


def _name(pod: NamedPod) -> str:
    return pod.metadata.name


def _matters(old: NamedPod | None, new: NamedPod | None) -> bool:
    """Filter the changes of a pod that an endpoint shows."""
    return old is None or new is None or _facets(old) != _facets(new)


def _facets(pod: NamedPod) -> tuple[object, ...]:
    metadata = pod.metadata
    state = (is_ready(pod), is_terminal(pod), metadata.deletion_timestamp is None)
    return (metadata.labels, pod.status.pod_ips, state)


def setup(manager: Manager) -> None:
    """Add the controller to a manager."""
    reconciler = EndpointSliceReconciler(manager)
    manager.add_controller(
        "endpointslice",
        reconciler,
        watches=[
            watch(Service),
            watch(NamedPod, map_to=reconciler.services_of, predicate=_matters),
            owned(EndpointSlice, by=Service),
        ],
    )
