"""Taint eviction controller: deletes pods from nodes with NoExecute taints, when they tolerate these no longer.

The time that a pod tolerates a taint begins when this controller sees both.

Source: kubernetes/pkg/controller/tainteviction/taint_eviction.go, processPodOnNode, addConditionAndDeletePod.
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta

from kcr.api.core import reference_to
from kcr.api.full.core_v1 import Taint, Toleration
from kcr.api.meta import Condition, Key, whole_seconds
from kcr.controller import Result, watch
from kcr.errors import NotFoundError
from kcr.informer import Handler, Trigger
from kcr.manager import Manager
from kcr_devcluster.cluster.scheduling.matching import tolerates
from kcr_devcluster.cluster.scheduling.objects import PlacedPod, ScheduledNode

_REASON, _MESSAGE = "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"


def toleration_time(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> timedelta | None:
    """Return how long a pod tolerates taints, None for no limit; zero when it does not tolerate one of them.

    Args:
        tolerations: The pod's.
        taints: The NoExecute taints of its node.
    """
    known, shortest = tuple(tolerations), None
    for taint in taints:
        matching = next((one for one in known if tolerates(one, taint)), None)
        if matching is None:
            return timedelta()
        if matching.toleration_seconds is not None:
            seconds = timedelta(seconds=max(matching.toleration_seconds, 0))
            shortest = seconds if shortest is None else min(shortest, seconds)
    return shortest


class TaintEvictionReconciler(Handler[PlacedPod]):
    """Reconciles one node: deletes its pods whose time is over. Pods are watched from the first such taint on."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._client, self._clock = manager.client, manager.clock
        self._events = manager.recorder("taint-eviction-controller")
        self._nodes = manager.store(ScheduledNode)
        # Since when pods, by uid, are on a node with such taints; by node.
        self._since: dict[Key, dict[str, datetime]] = {}
        self._is_watching = False
        nodes = watch(ScheduledNode, predicate=_changes_taints)
        self._queue = manager.add_controller("taint-eviction", self, watches=[nodes]).queue

    def on_add(self, obj: PlacedPod, initial: bool) -> None:
        """Enqueue the pod's node, if it is tainted."""
        self._enqueue_node(obj, Trigger.added(obj, initial))

    def on_update(self, old: PlacedPod, new: PlacedPod) -> None:
        """Do the same when the pod tolerates something else."""
        if old.spec.tolerations != new.spec.tolerations:
            self._enqueue_node(new, Trigger.updated(old, new))

    def _enqueue_node(self, pod: PlacedPod, trigger: Trigger) -> None:
        key = Key("", pod.spec.node_name)
        if key in self._since:
            self._queue.add(key, *trigger)

    async def reconcile(self, key: Key) -> Result:
        """Delete the pods whose time is over, and come back when the next one's is."""
        node = self._nodes.get(key)
        taints = _evicting(node) if node is not None else ()
        if not taints:
            self._since.pop(key, None)
            return Result()
        since = self._since.setdefault(key, {})
        pods = await self._pods_on(key.name)
        now = self._clock.now()
        left = {pod.metadata.uid for pod in pods}
        self._since[key] = since = {uid: at for uid, at in since.items() if uid in left}
        waits: list[timedelta] = []
        for pod in pods:
            time = toleration_time(pod.spec.tolerations, taints)
            if time is None or pod.metadata.deletion_timestamp is not None:
                continue
            wait = since.setdefault(pod.metadata.uid, now) + time - now
            if wait > timedelta():
                waits.append(wait)
            else:
                await self._evict(pod)
        return Result(requeue_after=min(waits).total_seconds()) if waits else Result()

    async def _pods_on(self, node: str) -> list[PlacedPod]:
        informer = self._manager.informer(PlacedPod)
        if not self._is_watching:
            self._is_watching = True
            informer.add_handler(self)
        await informer.wait_synced()
        return [pod for pod in informer.store.snapshot() if pod.spec.node_name == node]

    async def _evict(self, pod: PlacedPod) -> None:
        self._events.event(reference_to(pod), "Normal", "TaintManagerEviction", f"Marking for deletion Pod {pod.key}")
        condition = Condition(
            type="DisruptionTarget", status="True", reason=_REASON, message=_MESSAGE,
            last_transition_time=whole_seconds(self._clock.now()),
        )  # fmt: skip
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
        with suppress(NotFoundError):  # deleted meanwhile
            await self._client.strategic_patch(PlacedPod, pod.key, patch, subresource="status")
            await self._client.delete(PlacedPod, pod.key, uid=pod.metadata.uid)


def _evicting(node: ScheduledNode) -> tuple[Taint, ...]:
    return tuple(one for one in node.spec.taints if one.effect == "NoExecute")


def _changes_taints(old: ScheduledNode | None, new: ScheduledNode | None) -> bool:
    before = _evicting(old) if old is not None else ()
    after = _evicting(new) if new is not None else ()
    return before != after
