"""Reads the context of pods that do not run: warnings about them, and their nodes."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from kcr.api.core import Event, Node, Pod
from kcr.api.meta import Key
from kcr.api.pod_problems import PodContext
from kcr.api.pods import is_ready, is_terminal
from kcr.client.client import Client
from kcr.errors import ForbiddenError, NotFoundError

# So many pods and nodes are asked about: the others are most likely held up alike.
_ASKED = 3


async def read_pod_context(client: Client, pods: Iterable[Pod], change: str) -> PodContext:
    """Read warnings about pods that do not run, the nodes they are bound to, and the nodes that take no new pods.

    Unreadable parts are omitted.

    Args:
        client: Where to read.
        pods: The pods; a few of those that are not ready are asked about.
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
    """Return the warnings about some pods, in the order in which they were last seen."""
    found: list[Event] = []
    for pod in [pod for pod in pods if pod.spec.node_name][:_ASKED]:
        fields = f"involvedObject.kind=Pod,involvedObject.name={pod.metadata.name},type=Warning"
        try:
            found += await client.list(Event, pod.metadata.namespace, fields=fields)
        except ForbiddenError:
            break
    return tuple(sorted(found, key=last_seen))


def last_seen(event: Event) -> datetime:
    """Return when an event was last seen."""
    moments = (event.last_timestamp, event.event_time, event.first_timestamp, event.metadata.creation_timestamp)
    return next((moment for moment in moments if moment is not None), datetime.fromtimestamp(0, UTC))
