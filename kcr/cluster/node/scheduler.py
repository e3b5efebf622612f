"""Gives pods a node: this one, there is no other."""

import asyncio
from collections.abc import Mapping

import msgspec

from kcr.api.core import Node
from kcr.api.meta import Condition, whole_seconds
from kcr.client import Client
from kcr.clock import Clock
from kcr.cluster.node.events import Events
from kcr.cluster.node.pods import RunnablePod, has_ended
from kcr.errors import ApiError, ServerError, TooManyRequestsError, TransportError

RETRY_SECONDS = 1.0
SCHEDULER = "default-scheduler"


def wants_a_node(pod: RunnablePod) -> bool:
    """Return whether a pod waits for a node, and may have one."""
    spec = pod.spec
    if spec.node_name or spec.scheduling_gates or has_ended(pod) or pod.metadata.deletion_timestamp is not None:
        return False
    return (spec.scheduler_name or SCHEDULER) == SCHEDULER


class Scheduler:
    """Binds pods to the node as they come. An attempt that fails is made again for as long as the pod waits."""

    def __init__(
        self, client: Client, events: Events, group: asyncio.TaskGroup, *, clock: Clock, node: str,
        labels: Mapping[str, str],
    ) -> None:  # fmt: skip
        """Make a scheduler.

        Args:
            client: How to reach the server.
            events: Where to tell of it.
            group: Owns the bindings under way.
            clock: For conditions.
            node: The node's name.
            labels: The node's labels; a pod may select by them.
        """
        self._client = client
        self._events = events
        self._group = group
        self._clock = clock
        self._node = node
        self._labels = labels
        # Pods that wait for a node, by uid. Each has one task, until it is bound or gone.
        self._waiting: dict[str, RunnablePod] = {}
        # Pods that do not fit, by uid, and what they were told; they wait for the node to change.
        self._refused: dict[str, tuple[RunnablePod, str]] = {}
        self._cordoned = False

    def observe(self, pod: RunnablePod) -> None:
        """Take note of a pod."""
        uid = pod.metadata.uid
        if not wants_a_node(pod):
            self.forget(uid)
        elif uid not in self._waiting and uid not in self._refused:
            self._try(pod)

    def observe_node(self, node: Node) -> None:
        """Take note of whether the node takes pods; those that fit from now on get their turn."""
        self._cordoned = node.spec.unschedulable
        for uid, (pod, told) in tuple(self._refused.items()):
            if self._obstacle(pod) != told:
                del self._refused[uid]
                self._try(pod)

    def forget(self, uid: str) -> None:
        """Give up a pod that no longer waits."""
        self._waiting.pop(uid, None)
        self._refused.pop(uid, None)

    def _obstacle(self, pod: RunnablePod) -> str:
        """Return why a pod cannot have the node now, `""` when it can."""
        wanted = pod.spec.node_selector or {}
        if any(self._labels.get(name) != value for name, value in wanted.items()):
            return "1 node(s) didn't match Pod's node affinity/selector"
        return "1 node(s) were unschedulable" if self._cordoned else ""

    def _try(self, pod: RunnablePod) -> None:
        self._waiting[pod.metadata.uid] = pod
        self._group.create_task(self._place(pod))

    async def _place(self, pod: RunnablePod) -> None:
        uid = pod.metadata.uid
        while uid in self._waiting:
            obstacle = self._obstacle(pod)
            try:
                await (self._refuse(pod, obstacle) if obstacle else self._bind(pod))
            except (TransportError, ServerError, TooManyRequestsError):
                await asyncio.sleep(RETRY_SECONDS)
                continue
            except ApiError:
                break  # bound by somebody else, gone, or changed: the next event of the pod tells
            if not obstacle:
                break
            if uid in self._waiting and obstacle == self._obstacle(pod):
                self._refused[uid] = pod, obstacle
                break
        self._waiting.pop(uid, None)

    async def _bind(self, pod: RunnablePod) -> None:
        metadata = pod.metadata
        binding = {
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self._node},
        }  # fmt: skip
        path = pod.resource.path(metadata.namespace, metadata.name, "binding")
        await self._client.request("POST", path, msgspec.json.encode(binding))
        where = f"{metadata.namespace}/{metadata.name}"
        self._events.record(pod, "Scheduled", f"Successfully assigned {where} to {self._node}")

    async def _refuse(self, pod: RunnablePod, obstacle: str) -> None:
        message = f"0/1 nodes are available: {obstacle}."
        condition = Condition(
            type="PodScheduled", status="False", reason="Unschedulable", message=message,
            last_transition_time=whole_seconds(self._clock.now()),
        )  # fmt: skip
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
        await self._client.strategic_patch(RunnablePod, pod.key, patch, subresource="status")
        self._events.record(pod, "FailedScheduling", message, type_="Warning")
