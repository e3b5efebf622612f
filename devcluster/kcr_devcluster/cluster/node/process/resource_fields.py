"""Requests and limits of containers as text: `resourceFieldRef` of variables and of downward API volumes."""

from collections.abc import Iterable, Mapping

import msgspec

from kcr.client import Client
from kcr_devcluster.apiserver.schema.quantities import amount
from kcr_devcluster.cluster.node.pods import KubeletContainer, KubeletPod

_ONE = 10**9


class ResourceFieldError(Exception):
    """A resource cannot be found; the message says why."""


def resource_text(pod: KubeletPod, name: str, resource: str, divisor: str, allocatable: Mapping[str, str]) -> str:
    """Return a request or limit of a container in units of a divisor, rounded up.

    Args:
        pod: The pod.
        name: The container.
        resource: Such as `limits.cpu` or `requests.memory`.
        divisor: A quantity; 0 for cores of CPU, and bytes of all else.
        allocatable: Of the node: stands for a limit that is not set.

    Raises:
        ResourceFieldError: There is no such container.

    Source: kubernetes/pkg/api/v1/resource/helpers.go, ExtractContainerResourceValue.
    """
    containers: Iterable[KubeletContainer] = (*pod.spec.containers, *pod.spec.init_containers)
    container = next((one for one in containers if one.name == name), None)
    if container is None:
        raise ResourceFieldError(f"container {name} not found")
    kind, _, of = resource.partition(".")
    given: str | int = container.resources.get(kind, {}).get(of, "0")
    if kind == "limits" and amount(str(given)) == 0:
        given = allocatable.get(of, "0")
    return str(-(-amount(str(given)) // (amount(divisor) or _ONE)))


async def node_allocatable(client: Client, node: str) -> dict[str, str]:
    """Return the allocatable resources of a node.

    Args:
        client: Reads the Node.
        node: Its name.

    Raises:
        ApiError: It cannot be read.
    """
    body = await client.request("GET", f"/api/v1/nodes/{node}")
    return dict(msgspec.json.decode(body).get("status", {}).get("allocatable", {}))
