"""The address behind a Service that a webhook is served by: a pod's process, or a port of this machine.

Pods whose processes run have the address of this machine, and no proxy stands before them: a Service is resolved here,
when a webhook is called.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/util/proxy/proxy.go, ResolveEndpoint.
"""

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import NamedTuple

from kcr_devcluster.apiserver.admission.caller import Target, WebhookCallError
from kcr_devcluster.apiserver.kinds.catalogue import PODS, SERVICES
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import selects
from kcr_devcluster.apiserver.storage.records import Record
from kcr_devcluster.apiserver.storage.storage import Storage
from kcr_devcluster.options import service_address


class WebhookAddress(NamedTuple):
    """A place to connect to."""

    host: str
    port: int


class Services:
    """Resolves Services."""

    def __init__(self, storage: Storage, given: Sequence[str] = ()) -> None:
        """Make the resolver.

        Args:
            storage: Where Services and pods are.
            given: Services that are served elsewhere, such as `shop/hooks=https://127.0.0.1:9443`; those come first.

        Raises:
            ValueError: One of these is none.
        """
        self._storage = storage
        addresses = map(service_address, given)
        self._given: Mapping[str, WebhookAddress] = {name: WebhookAddress(host, port) for name, host, port in addresses}

    def resolve(self, target: Target) -> WebhookAddress:
        """Return where the Service of a webhook is served.

        Raises:
            WebhookCallError: There is no such Service or port, or no pod behind it is ready.
        """
        if (found := self._given.get(target.service)) is not None:
            return found
        namespace, _, name = target.service.partition("/")
        record = self._storage.get(SERVICES, namespace, name)
        if record is None:
            raise WebhookCallError(f'service "{name}" not found')
        spec = record.manifest().get("spec") or {}
        port = next((one for one in spec.get("ports") or () if one.get("port") == target.port), None)
        if port is None:
            raise WebhookCallError(f'no service port {target.port} found for service "{name}"')
        for pod in self._ready_pods(namespace, spec.get("selector") or {}):
            number = _port_of(pod, port.get("targetPort") or target.port)
            if number:
                return _reachable(pod, number)
        raise WebhookCallError(f'no endpoints available for service "{name}"')

    def _ready_pods(self, namespace: str, selector: Mapping[str, str]) -> list[Manifest]:
        """Return the pods that serve requests, by name."""
        if not selector:
            return []
        records = self._storage.cache(PODS).select(namespace)
        chosen = [one for one in records if selects({"matchLabels": dict(selector)}, one.metadata.labels)]
        return [pod for record in chosen if _is_ready(record, pod := record.manifest())]


def _is_ready(record: Record, pod: Manifest) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
    return ready and record.metadata.deletion_timestamp is None


def _port_of(pod: Manifest, target: int | str) -> int:
    """Return the port of a pod for the target port of a Service, 0 where it has none of that name."""
    if isinstance(target, int):
        return target
    ports = (port for container in pod["spec"].get("containers") or () for port in container.get("ports") or ())
    return next((port["containerPort"] for port in ports if port.get("name") == target), 0)


def _reachable(pod: Manifest, port: int) -> WebhookAddress:
    """Return the address of a pod.

    Raises:
        WebhookCallError: It is that of a simulated pod, where nothing listens.
    """
    host: str = (pod.get("status") or {}).get("podIP") or ""
    if not host or not ip_address(host).is_loopback:
        raise WebhookCallError(f"dial tcp {host}:{port}: connect: no route to host")
    return WebhookAddress(host, port)
