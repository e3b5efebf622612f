"""Pod garbage collector: fails and deletes the pods of missing nodes, and deletes finished pods beyond a threshold.

Upstream looks every 20 s and gives a missing node 40 s to come back; here a deleted node is acted upon at once, and a
node that never was after a minute.

Source: kubernetes/pkg/controller/podgc/gc_controller.go, gcOrphaned, gcTerminated, markFailedAndDeletePod.
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime

from kcr.api.conditions import find_condition
from kcr.api.core import Node, Pod
from kcr.api.meta import Condition, Key, PartialObjectMetadata, metadata_only, whole_seconds
from kcr.controller import Result, watch
from kcr.errors import NotFoundError
from kcr.informer import Handler, Selection, Store, Trigger
from kcr.manager import Manager
from kcr.workqueue import WorkQueue

# Source: gc_controller.go, gcCheckPeriod; kube-controller-manager, --terminated-pod-gc-threshold.
CHECK_SECONDS = 20.0
# Source: gc_controller.go, quarantineTime, and one period more.
QUARANTINE_SECONDS = 40.0 + CHECK_SECONDS

_FINISHED = ("Succeeded", "Failed")
_BEFORE_ALL = datetime.min.replace(tzinfo=UTC)
# The threshold is the cluster's, so there is one key.
_CLUSTER = Key("", "cluster")


class OrphanedPodCollector:
    """Reconciles one node that is missing: there is no kubelet to report how its pods ended."""

    def __init__(self, manager: Manager) -> None:
        self._client = manager.client
        self._clock = manager.clock

    async def reconcile(self, key: Key) -> Result:
        """Fail and delete the pods of a node, unless the node is back: it knows best how its pods fare."""
        with suppress(NotFoundError):
            await self._client.get(Node, key)
            return Result()
        for pod in await self._client.list(Pod, fields=f"spec.nodeName={key.name}"):
            with suppress(NotFoundError):  # deleted meanwhile
                if pod.status.phase not in _FINISHED:
                    await self._fail(pod)
                await self._client.delete(Pod, pod.key, uid=pod.metadata.uid, grace_period_seconds=0)
        return Result()

    async def _fail(self, pod: Pod) -> None:
        before = find_condition(pod.status.conditions, "DisruptionTarget")
        lasts = before is not None and before.status == "True"
        condition = Condition(
            type="DisruptionTarget", status="True", reason="DeletionByPodGC", message="PodGC: node no longer exists",
            last_transition_time=before.last_transition_time if before and lasts else whole_seconds(self._clock.now()),
        )  # fmt: skip
        change = {"metadata": {"uid": pod.metadata.uid}, "status": {"phase": "Failed", "conditions": [condition]}}
        await self._client.strategic_patch(Pod, pod.key, change, subresource="status")


class ForeignPod(Pod):
    """A pod that is bound to a node which is none of the cluster's own."""


class ForeignPods(Handler[ForeignPod]):
    """Enqueues the missing nodes that pods are bound to, after the quarantine."""

    def __init__(self, nodes: Store[Node], queue: WorkQueue[Key]) -> None:
        self._nodes, self._queue = nodes, queue

    def on_add(self, obj: ForeignPod, initial: bool) -> None:
        """Check the node of a pod that is bound now."""
        node = Key("", obj.spec.node_name)
        if self._nodes.get(node) is None:
            self._queue.add_after(node, QUARANTINE_SECONDS, *Trigger.added(obj, initial))


class FinishedPodCollector(Handler[PartialObjectMetadata]):
    """Deletes the oldest finished pods while there are more than a threshold; with fewer pods, none is checked."""

    def __init__(self, manager: Manager, threshold: int, queue: WorkQueue[Key]) -> None:
        self._client = manager.client
        self._threshold, self._queue = threshold, queue
        self._pods: Store[PartialObjectMetadata] = manager.store(metadata_only(Pod))

    def on_add(self, obj: PartialObjectMetadata, initial: bool) -> None:
        """Schedule a reconcile when there are more pods than the threshold."""
        self._check(Trigger.added(obj, initial))

    def on_update(self, old: PartialObjectMetadata, new: PartialObjectMetadata) -> None:
        """Do the same: the pod may have finished."""
        self._check(Trigger.updated(old, new))

    def _check(self, trigger: Trigger) -> None:
        if len(self._pods) > self._threshold:
            self._queue.add_after(_CLUSTER, CHECK_SECONDS, *trigger)

    async def reconcile(self, _: Key) -> Result:
        """Delete the surplus."""
        if len(self._pods) > self._threshold:
            for pod in surplus(await self._client.list(Pod), self._threshold):
                with suppress(NotFoundError):  # deleted meanwhile
                    await self._client.delete(Pod, pod.key, uid=pod.metadata.uid, grace_period_seconds=0)
        return Result()


def surplus(pods: Iterable[Pod], threshold: int) -> list[Pod]:
    """Return the finished pods beyond a number: evicted ones first, then the oldest, then by name.

    Source: gc_controller.go, gcTerminated, byEvictionAndCreationTimestamp.
    """
    finished = [pod for pod in pods if pod.status.phase in _FINISHED]
    finished.sort(
        key=lambda pod: (
            not (pod.status.phase == "Failed" and pod.status.reason == "Evicted"),
            pod.metadata.creation_timestamp or _BEFORE_ALL,
            pod.metadata.name,
        )
    )
    return finished[: max(0, len(finished) - threshold)]


def setup(manager: Manager, threshold: int, nodes: Iterable[str] = ()) -> None:
    """Add the two controllers.

    Args:
        manager: The manager.
        threshold: How many finished pods may stay; 0 for all.
        nodes: The cluster's own nodes. Without any, other clients run pods, also on nodes that never were.
    """
    deleted_nodes = watch(Node, predicate=lambda old, new: new is None)
    orphaned = manager.add_controller("pod-garbage-collector", OrphanedPodCollector(manager), watches=[deleted_nodes])
    if own := [f"spec.nodeName!={name}" for name in nodes]:
        # The server sends none of the usual pods.
        manager.select(Selection(ForeignPod, fields=",".join(("spec.nodeName!=", *own))))
        manager.informer(ForeignPod).add_handler(ForeignPods(manager.store(Node), orphaned.queue))
    if threshold:
        name = "finished-pod-garbage-collector"
        queue = manager.queue(name)
        collector = FinishedPodCollector(manager, threshold, queue)
        manager.add_controller(name, collector, watches=(), queue=queue)
        manager.informer(metadata_only(Pod)).add_handler(collector)
