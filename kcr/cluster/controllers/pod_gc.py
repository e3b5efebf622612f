"""Pod garbage collection: pods of nodes that are gone, and finished pods beyond a number.

Pods of a deleted node are deleted as well: no kubelet is left to report how they ended. A client like any other.
Upstream looks every 20 s and lets a missing node wait for 40; here a node that goes is acted upon at once.

Source: kubernetes/pkg/controller/podgc/gc_controller.go, gcOrphaned, gcTerminated, markFailedAndDeletePod.
"""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime

from kcr.api.conditions import find
from kcr.api.core import Node, Pod
from kcr.api.meta import Condition, Key, ObjectMeta, whole_seconds
from kcr.client import Client
from kcr.clock import Clock
from kcr.cluster.controllers.census import Census, Place
from kcr.cluster.controllers.pending import Pending
from kcr.errors import ApiError, NotFoundError, TransportError

_PAUSE_SECONDS = 1.0
_ENDED = ("Succeeded", "Failed")
# Source: gc_controller.go, gcCheckPeriod; kube-controller-manager, --terminated-pod-gc-threshold.
_CHECK_SECONDS = 20.0
TERMINATED_POD_GC_THRESHOLD = 12_500
_BEFORE_ALL = datetime.min.replace(tzinfo=UTC)

_log = logging.getLogger(__name__)


class PodCollector:
    """Fails and deletes the pods of nodes that are gone. `run` does so until it is cancelled.

    A pod that names a node which was never there is left alone: somebody else may run it.
    """

    def __init__(self, client: Client, census: Census, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._pending: Pending[str] = Pending()
        census.listeners.append(self._on_change)

    def _on_change(self, place: Place, old: ObjectMeta | None, new: ObjectMeta | None) -> None:
        if new is None and place.type.resource == Node.resource:
            self._pending.add(place.key.name)

    async def run(self) -> None:
        """Collect until cancelled."""
        while True:
            node = await self._pending.next()
            if not await self._attend(node):
                self._pending.add(node)
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _attend(self, node: str) -> bool:
        """Collect the pods of a node that is gone, and return whether none is left to try again."""
        try:
            if await self._exists(node):
                return True  # it is back, and knows best how its pods fare
            pods = await self._client.list(Pod, fields=f"spec.nodeName={node}")
        except (ApiError, TransportError) as error:
            _log.warning("pods of the lost node %s: %s", node, error)
            return False
        return all([await self._collect(pod) for pod in pods])

    async def _exists(self, node: str) -> bool:
        try:
            await self._client.get(Node, Key("", node))
        except NotFoundError:
            return False
        return True

    async def _collect(self, pod: Pod) -> bool:
        try:
            with suppress(NotFoundError):  # gone in the meantime
                if pod.status.phase not in _ENDED:
                    await self._fail(pod)
                await self._client.delete(Pod, pod.key, uid=pod.metadata.uid, grace_period_seconds=0)
        except (ApiError, TransportError) as error:
            _log.warning("lost pod %s: %s", pod.key, error)
            return False
        return True

    async def _fail(self, pod: Pod) -> None:
        before = find(pod.status.conditions, "DisruptionTarget")
        lasts = before is not None and before.status == "True"
        condition = Condition(
            type="DisruptionTarget", status="True", reason="DeletionByPodGC", message="PodGC: node no longer exists",
            last_transition_time=before.last_transition_time if before and lasts else whole_seconds(self._clock.now()),
        )  # fmt: skip
        change = {"metadata": {"uid": pod.metadata.uid}, "status": {"phase": "Failed", "conditions": [condition]}}
        await self._client.strategic_patch(Pod, pod.key, change, subresource="status")


class FinishedPodCollector:
    """Deletes the oldest finished pods while there are more than a threshold. `run` does so until it is cancelled."""

    def __init__(self, client: Client, census: Census, threshold: int) -> None:
        """Look at nothing yet.

        Args:
            client: Where to list and delete.
            census: Tells how many pods there are, finished or not: while these are few, no pod is looked at.
            threshold: How many finished pods may stay; above zero.
        """
        self._client = client
        self._threshold = threshold
        self._present: set[Key] = set()
        self._has_many = asyncio.Event()
        census.listeners.append(self._on_change)

    def _on_change(self, place: Place, old: ObjectMeta | None, new: ObjectMeta | None) -> None:
        if place.type.resource != Pod.resource:
            return
        (self._present.discard if new is None else self._present.add)(place.key)
        if len(self._present) > self._threshold:
            self._has_many.set()
        else:
            self._has_many.clear()

    async def run(self) -> None:
        """Collect until cancelled."""
        while True:
            await self._has_many.wait()
            await asyncio.sleep(_CHECK_SECONDS)
            try:
                await self._collect()
            except (ApiError, TransportError) as error:
                _log.warning("finished pods: %s", error)

    async def _collect(self) -> None:
        for pod in surplus(await self._client.list(Pod), self._threshold):
            with suppress(NotFoundError):  # gone in the meantime
                await self._client.delete(Pod, pod.key, uid=pod.metadata.uid, grace_period_seconds=0)


def surplus(pods: Iterable[Pod], threshold: int) -> list[Pod]:
    """Return the finished pods beyond a number: evicted ones first, then the oldest, then by name.

    Source: gc_controller.go, gcTerminated, byEvictionAndCreationTimestamp.
    """
    finished = [pod for pod in pods if pod.status.phase in _ENDED]
    finished.sort(
        key=lambda pod: (
            not (pod.status.phase == "Failed" and pod.status.reason == "Evicted"),
            pod.metadata.creation_timestamp or _BEFORE_ALL,
            pod.metadata.name,
        )
    )
    return finished[: max(0, len(finished) - threshold)]
