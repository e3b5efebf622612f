"""Resource metrics, `metrics.k8s.io`: the usage of nodes and pods, as metrics-server answers `kubectl top`.

Source: kubernetes-sigs/metrics-server/pkg/api/{pod,node,table,install}.go.
"""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from kcr.api.meta import ObjectMeta, whole_seconds
from kcr.api.resources import ResourceType
from kcr_devcluster.apiserver.http.routes import Route
from kcr_devcluster.apiserver.http.serialization import ObjectEncoder
from kcr_devcluster.apiserver.kinds.catalogue import NODES, PODS
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.query import Query
from kcr_devcluster.apiserver.protocol.responses import APIResponse, StatusError, json_response, not_found
from kcr_devcluster.apiserver.storage.records import Record, encode
from kcr_devcluster.apiserver.storage.selection import selection_predicate
from kcr_devcluster.apiserver.storage.storage import Storage


class ComputedKind(Kind):
    """A kind whose objects are computed on each read, and never stored."""

    is_computed = True

    @property
    def verbs(self) -> tuple[str, ...]:
        """The verbs of the kind: those that read."""
        return ("get", "list")

    @property
    def singular(self) -> str:
        """Empty: discovery has no name of one here."""
        return ""


_GROUP, _VERSION = "metrics.k8s.io", "v1beta1"
NODE_METRICS = ComputedKind(ResourceType(_GROUP, _VERSION, "NodeMetrics", "nodes", False))
POD_METRICS = ComputedKind(ResourceType(_GROUP, _VERSION, "PodMetrics", "pods"))
METRICS_KINDS = (NODE_METRICS, POD_METRICS)
# The type in messages about an object that exists and has no metrics.
_UNKNOWN = {
    "nodes": ResourceType(_GROUP, _VERSION, "NodeMetrics", "nodemetrics", False),
    "pods": ResourceType(_GROUP, _VERSION, "PodMetrics", "podmetrics"),
}
_NANO, _KIBI = 10**9, 1024


class ContainerUsage(NamedTuple):
    """The resource usage of a container.

    Attributes:
        uid: The uid of its pod.
        name: The container.
        cpu_cores: CPU time over the window.
        memory_bytes: At the end of the window.
    """

    uid: str
    name: str
    cpu_cores: float
    memory_bytes: int


class NodeUsage(NamedTuple):
    """The resource usage of a node's containers.

    Attributes:
        node: The node's name.
        moment: The end of the window.
        window_seconds: Over which time CPU was measured.
        containers: All that run.
    """

    node: str
    moment: datetime
    window_seconds: float
    containers: tuple[ContainerUsage, ...]


class MetricsSource(Protocol):
    """Measures the resource usage of a node's containers."""

    async def usage(self) -> NodeUsage | None:
        """Measure now, which may take a moment; None while the node does not run."""
        ...


async def respond(
    sources: Sequence[MetricsSource], storage: Storage, route: Route, query: Query, encoder: ObjectEncoder
) -> APIResponse:
    """Handle a GET of resource metrics.

    Raises:
        StatusError: 404, there is no such node or pod, or nothing is known of it; 405 for a watch.
    """
    kind = NODES if route.kind is NODE_METRICS else PODS
    if query.flag("watch") and not route.name:
        message = f'watch is not supported on resources of kind "{route.kind.type.display}"'
        raise StatusError(405, "MethodNotAllowed", message, details={"group": _GROUP, "kind": kind.type.plural})
    selection = selection_predicate(route.kind, route.namespace, route.name, query)
    if route.name and storage.get(kind, route.namespace, route.name) is None:
        raise not_found(kind.type, route.name)
    usages = await _measure(sources)
    found = _nodes(usages, storage) if kind is NODES else _pods(usages, storage)
    records = sorted((record for record in found if selection.matches(record)), key=lambda record: record.key)
    if not route.name:
        return json_response(encoder.encode_list(route.kind, {}, records))
    if not records:
        name = f"{route.namespace}/{route.name}" if route.namespace else route.name
        raise not_found(_UNKNOWN[kind.type.plural], name)
    return json_response(encoder.encode_object(records[0]))


async def _measure(sources: Sequence[MetricsSource]) -> list[NodeUsage]:
    """Return the resource usage of the containers of all nodes, measured at the same time."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(source.usage()) for source in sources]
    return [usage for task in tasks if (usage := task.result()) is not None]


def _nodes(usages: Sequence[NodeUsage], storage: Storage) -> Iterator[Record]:
    for usage in usages:
        if (node := storage.get(NODES, "", usage.node)) is not None:
            yield _record(NODE_METRICS, node.metadata, usage, {"usage": _resources(usage.containers)})


def _pods(usages: Sequence[NodeUsage], storage: Storage) -> Iterator[Record]:
    """Yield the metrics of all running pods each of whose containers has been measured."""
    by_uid: dict[str, tuple[NodeUsage, list[ContainerUsage]]] = {}
    for usage in usages:
        for container in usage.containers:
            by_uid.setdefault(container.uid, (usage, []))[1].append(container)
    for pod in storage.cache(PODS).records.values():
        if pod.metadata.uid in by_uid and pod.field("status.phase") == "Running":
            usage, containers = by_uid[pod.metadata.uid]
            shown = [{"name": one.name, "usage": _resources((one,))} for one in sorted(containers)]
            yield _record(POD_METRICS, pod.metadata, usage, {"containers": shown})


def _record(kind: Kind, owner: ObjectMeta, usage: NodeUsage, content: Manifest) -> Record:
    moment = whole_seconds(usage.moment)
    metadata = ObjectMeta(name=owner.name, namespace=owner.namespace, labels=owner.labels, creation_timestamp=moment)
    window = {"timestamp": moment, "window": _duration(usage.window_seconds)}
    return Record(kind, encode({"metadata": metadata, **window, **content}), metadata, 0)


def _resources(containers: Sequence[ContainerUsage]) -> dict[str, str]:
    nanocores = sum(int(one.cpu_cores * _NANO) for one in containers)
    kibibytes = sum(one.memory_bytes for one in containers) // _KIBI
    return {"cpu": f"{nanocores}n" if nanocores else "0", "memory": f"{kibibytes}Ki" if kibibytes else "0"}


def _duration(seconds: float) -> str:
    """Return a duration below a minute, in milliseconds, as Go prints it."""
    milliseconds = round(seconds * 1000)
    return f"{milliseconds / 1000:g}s" if milliseconds >= 1000 else f"{milliseconds}ms"
