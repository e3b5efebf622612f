"""Gives pods a node: this one, there is no other."""

import asyncio
from collections.abc import Mapping

import msgspec

from kcr.api.meta import Condition, whole_seconds
from kcr.client import Client
from kcr.clock import Clock
from kcr.embedded.node.events import Events
from kcr.embedded.node.pods import RunnablePod, has_ended
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
        # Pods that were told that they do not fit.
        self._refused: set[str] = set()

    def observe(self, pod: RunnablePod) -> None:
        """Take note of a pod."""
        uid = pod.metadata.uid
        if not wants_a_node(pod):
            self.forget(uid)
        elif uid not in self._waiting and uid not in self._refused:
            self._waiting[uid] = pod
            self._group.create_task(self._place(pod))

    def forget(self, uid: str) -> None:
        """Give up a pod that no longer waits."""
        self._waiting.pop(uid, None)
        self._refused.discard(uid)

    async def _place(self, pod: RunnablePod) -> None:
        uid = pod.metadata.uid
        fits = all(self._labels.get(name) == value for name, value in (pod.spec.node_selector or {}).items())
        attempt = self._bind if fits else self._refuse
        while uid in self._waiting:
            try:
                await attempt(pod)
            except (TransportError, ServerError, TooManyRequestsError):
                await asyncio.sleep(RETRY_SECONDS)
            except ApiError:
                break  # bound by somebody else, gone, or changed: the next event of the pod tells
            else:
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

    async def _refuse(self, pod: RunnablePod) -> None:
        message = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
        condition = Condition(
            type="PodScheduled", status="False", reason="Unschedulable", message=message,
            last_transition_time=whole_seconds(self._clock.now()),
        )  # fmt: skip
        self._refused.add(pod.metadata.uid)
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
        await self._client.strategic_patch(RunnablePod, pod.key, patch, subresource="status")
        self._events.record(pod, "FailedScheduling", message, type_="Warning")
