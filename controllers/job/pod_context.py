"""Explains pods and workloads on the API server's data: reads them, the nodes and the warnings about them.

Parts that the user may not read are omitted.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TypeVar

import msgspec

from kcr.api import selectors
from kcr.api.core import Event, Node, Pod
from kcr.api.explanation import Explanation
from kcr.api.meta import Key, Resource, controller_of, is_controlled_by
from kcr.api.pods import is_ready, is_terminal
from kcr.api.unstructured import Unstructured, unstructured
from kcr.client import Client, LogOptions
from kcr.client.explainers import explains, last_seen, list_or_nothing
from kcr.controllers.job.decisions.pod_troubles.failures import failed_container
from kcr.controllers.job.decisions.pod_troubles.pod import change_of, explain_pod
from kcr.controllers.job.decisions.pod_troubles.problems import DetailedPod, PodContext
from kcr.controllers.job.decisions.pod_troubles.workload import ObservedWorkload, explain_workload
from kcr.errors import ApiError, ForbiddenError, NotFoundError

R = TypeVar("R", bound=Resource)
S = TypeVar("S", bound=Callable[..., object])

_WORKLOADS = tuple(
    unstructured("apps/v1", kind, plural=f"{kind.lower()}s")
    for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
)
_REPLICASETS = _WORKLOADS[-1]
# So many pods and nodes are read: the others most likely have the same obstacle.
_ASKED = 3


def explains_pods(setup: S) -> S:
    """Add the explainers of pods and of the workloads that own them to a plugin's `setup`."""
    for kind in _WORKLOADS:
        setup = explains(kind, _explain_workload)(setup)
    return explains(DetailedPod, _explain_pod)(setup)


async def _explain_pod(client: Client, pod: DetailedPod, events: Sequence[Event], now: datetime) -> Explanation:
    return explain_pod(pod, await read_pod_context(client, [pod], change_of(pod.metadata)), now)


async def _explain_workload(client: Client, obj: Unstructured, events: Sequence[Event], now: datetime) -> Explanation:
    return explain_workload(await _read_workload(client, obj, events, now))


async def read_pod_context(client: Client, pods: Iterable[Pod], change: str) -> PodContext:
    """Read warnings about pods that do not run, the nodes they are bound to, and the nodes that take no new pods.

    Unreadable parts are omitted.

    Args:
        client: Where to read.
        pods: The pods; a few of those that are not ready are read.
        change: How a user gets other pods; see `PodContext`.
    """
    waiting = [pod for pod in pods if not is_terminal(pod) and not is_ready(pod)]
    unscheduled = any(not pod.spec.node_name for pod in waiting)
    names = dict.fromkeys(pod.spec.node_name for pod in pods if not is_terminal(pod) and pod.spec.node_name)
    nodes: dict[str, Node | None] = {}
    with suppress(ForbiddenError):
        for name in tuple(names)[:_ASKED]:
            nodes[name] = await _node(client, name)
    if unscheduled:
        with suppress(ForbiddenError):
            cordoned = await client.list(Node, fields="spec.unschedulable=true")
            nodes |= {node.metadata.name: node for node in cordoned}
    return PodContext(await _warnings(client, waiting), nodes, change)


async def _node(client: Client, name: str) -> Node | None:
    try:
        return await client.get(Node, Key("", name))
    except NotFoundError:
        return None


async def _warnings(client: Client, pods: Sequence[Pod]) -> tuple[Event, ...]:
    found: list[Event] = []
    for pod in [pod for pod in pods if pod.spec.node_name][:_ASKED]:
        fields = f"involvedObject.kind=Pod,involvedObject.name={pod.metadata.name},type=Warning"
        try:
            found += await client.list(Event, pod.metadata.namespace, fields=fields)
        except ForbiddenError:
            break
    return tuple(sorted(found, key=last_seen))


async def read_last_lines(client: Client, pod: Pod, count: int) -> tuple[str, ...]:
    """Return the last lines that a failed pod's failed container has written; empty when its log cannot be read.

    Args:
        client: Where to read.
        pod: The pod.
        count: How many lines, at most.
    """
    container = failed_container(pod)
    if container is None:
        return ()
    try:
        text = await client.log(pod.key, LogOptions(container.name, tail_lines=count))
    except ApiError:
        return ()
    return tuple(text.splitlines()[-count:])


async def _read_workload(client: Client, obj: Unstructured, events: Sequence[Event], now: datetime) -> ObservedWorkload:
    """Read the pods of a workload, and the objects and events that explain why they do not run.

    Args:
        client: Where to read.
        obj: The workload.
        events: Those about it, the latest last.
        now: The moment to judge at.
    """
    namespace, spec = obj.metadata.namespace, obj.get("spec") or {}
    selector = msgspec.convert(spec.get("selector") or {}, selectors.LabelSelector)
    labels, owners, tries = selectors.text(selector), {obj.metadata.uid}, list(events)
    if obj.resource.kind == "Deployment":
        listed = await list_or_nothing(client, _REPLICASETS, namespace, labels=labels)
        sets = [one for one in listed if is_controlled_by(one, obj)]
        owners = {one.metadata.uid for one in sets}
        for one in sets:
            fields = f"involvedObject.kind=ReplicaSet,involvedObject.name={one.metadata.name}"
            tries += await list_or_nothing(client, Event, namespace, fields=fields)
    pods = tuple(
        pod
        for pod in await list_or_nothing(client, DetailedPod, namespace, labels=labels)
        if (owner := controller_of(pod.metadata)) is not None and owner.uid in owners
    )
    change = f"change {obj.resource.kind.lower()}/{obj.metadata.name} to"
    creations = (event for event in tries if event.reason in ("FailedCreate", "SuccessfulCreate"))
    context = await read_pod_context(client, pods, change)
    return ObservedWorkload(obj, pods, tuple(sorted(creations, key=last_seen)), context, now)
