"""Node lifecycle controller: finds out which nodes are silent, and taints those that are not well.

Upstream checks every five seconds; here a node is checked when it changes, when its Lease is renewed, and when it has
been silent for too long. Nodes are tainted at once, where upstream taints few at a time.

Source: kubernetes/pkg/controller/nodelifecycle/node_lifecycle_controller.go, monitorNodeHealth;
pkg/controller/util/node/controller_utils.go, MarkPodsNotReady, RecordNodeStatusChange.
"""

import asyncio
from contextlib import suppress
from typing import NamedTuple

from kcr.api.conditions import find_condition, is_condition_true
from kcr.api.coordination import Lease
from kcr.api.core import Pod, reference_to
from kcr.api.meta import Key
from kcr.controller import Result, watch
from kcr.errors import ConflictError, NotFoundError
from kcr.informer import Handler, Selection, Trigger
from kcr.manager import Manager
from kcr_devcluster.cluster.node_lifecycle.health import GRACE_SECONDS, silent_conditions, wanted_taints
from kcr_devcluster.cluster.scheduling.objects import ScheduledNode

_LEASES = "kube-node-lease"
# While this process itself stood still, no heartbeat of a node could arrive.
_LATE_SECONDS = 5.0


class _Health(NamedTuple):
    """The last heartbeat of a node, and when it was observed, by the loop's time."""

    heartbeat: object
    at: float


class NodeLifecycleReconciler(Handler[Lease]):
    """Reconciles one node: its conditions when it is silent, its taints always."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._client, self._clock = manager.client, manager.clock
        self._loop = asyncio.get_running_loop()
        self._events = manager.recorder("node-controller")
        self._nodes = manager.store(ScheduledNode)
        self._health: dict[Key, _Health] = {}
        # The newest Lease of each node.
        self._renewed: dict[str, object] = {}
        self._is_monitoring = False
        nodes = watch(ScheduledNode)
        self._queue = manager.add_controller("node-lifecycle", self, watches=[nodes]).queue

    def monitor(self) -> None:
        """Begin to watch whether nodes are alive."""
        self._is_monitoring = True
        self._manager.select(Selection(Lease, namespace=_LEASES))
        self._manager.informer(Lease).add_handler(self)
        for node in self._nodes.snapshot():
            self._queue.add(node.key)

    def on_add(self, obj: Lease, initial: bool) -> None:
        """Note that a node is alive."""
        self._note_renewal(obj, Trigger.added(obj, initial))

    def on_update(self, old: Lease, new: Lease) -> None:
        """Note that a node is alive."""
        self._note_renewal(new, Trigger.updated(old, new))

    def _note_renewal(self, lease: Lease, trigger: Trigger) -> None:
        self._renewed[lease.metadata.name] = lease.spec.renew_time
        self._queue.add(Key("", lease.metadata.name), *trigger)

    def on_delete(self, obj: Lease, final_state_unknown: bool) -> None:
        """Forget the Lease."""
        self._renewed.pop(obj.metadata.name, None)

    async def reconcile(self, key: Key) -> Result:
        """Bring conditions and taints of one node up to date."""
        node = self._nodes.get(key)
        if node is None:
            self._health.pop(key, None)
            return Result()
        with suppress(NotFoundError, ConflictError):  # changed or deleted meanwhile: a watch event follows
            left = self._time_left(node) if self._is_monitoring else None
            if left is not None and left <= 0:
                await self._mark_silent(node)
                return Result()
            await self._taint(node)
            return Result() if left is None else Result(requeue_after=left)
        return Result()

    def _time_left(self, node: ScheduledNode) -> float | None:
        """Return how long a node may be silent from now on, None when it is known to be not alive."""
        if all(one.status == "Unknown" for one in node.status.conditions if one.type == "Ready"):
            self._health.pop(node.key, None)
            return None
        ready = find_condition(node.status.conditions, "Ready")
        heartbeat = (ready.last_transition_time if ready else None, self._renewed.get(node.metadata.name))
        now, known = self._loop.time(), self._health.get(node.key)
        if known is None or known.heartbeat != heartbeat or now > known.at + GRACE_SECONDS + _LATE_SECONDS:
            known = self._health[node.key] = _Health(heartbeat, now)
        return known.at + GRACE_SECONDS - now

    async def _mark_silent(self, node: ScheduledNode) -> None:
        conditions = silent_conditions(node.status.conditions, self._clock.now())
        was_ready = is_condition_true(node.status.conditions, "Ready")
        patch = {"metadata": {"uid": node.metadata.uid}, "status": {"conditions": conditions}}
        await self._client.strategic_patch(ScheduledNode, node.key, patch, subresource="status")
        if was_ready:
            name = node.metadata.name
            self._events.event(node, "Normal", "NodeNotReady", f"Node {name} status is now: NodeNotReady")
            for pod in await self._client.list(Pod, fields=f"spec.nodeName={name}"):
                await self._mark_unready(pod)

    async def _mark_unready(self, pod: Pod) -> None:
        """Take a pod out of its services: nothing is known of it."""
        condition = find_condition(pod.status.conditions, "Ready")
        if condition is None or condition.status != "True":
            return
        moment = self._clock.now().replace(microsecond=0)
        change = {"type": "Ready", "status": "False", "lastTransitionTime": moment}
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [change]}}
        with suppress(NotFoundError, ConflictError):
            await self._client.strategic_patch(Pod, pod.key, patch, subresource="status")
            self._events.event(reference_to(pod), "Warning", "NodeNotReady", "Node is not ready")

    async def _taint(self, node: ScheduledNode) -> None:
        taints = wanted_taints(node, self._clock.now())
        if taints == node.spec.taints:
            return
        # The list is replaced whole, so nothing else may have changed it.
        metadata = {"resourceVersion": node.metadata.resource_version}
        patch = {"metadata": metadata, "spec": {"taints": taints or None}}
        await self._client.merge_patch(ScheduledNode, node.key, patch)
