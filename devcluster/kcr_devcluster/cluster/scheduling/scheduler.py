"""Scheduler: a controller that binds pods to nodes, and deletes pods of lower priority where that makes room.

A decision is made between two awaits and counted at once, before the server knows of it, so that the next one sees it.
Binding takes place beside other decisions.

Source: kubernetes/pkg/scheduler/schedule_one.go, schedulingCycle, bindingCycle, handleSchedulingFailure;
pkg/scheduler/eventhandlers.go; pkg/scheduler/framework/preemption/executor.go, prepareCandidate.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

from kcr.api.conditions import find_condition
from kcr.api.meta import Condition, Key, whole_seconds
from kcr.api.scheduling import PodGroup
from kcr.controller import Result
from kcr.errors import ApiError, ConflictError, NotFoundError
from kcr.informer import Handler, Selection, Trigger
from kcr.manager import Manager
from kcr.workqueue import WorkQueue
from kcr_devcluster.cluster.scheduling.cluster_state import PodInfo
from kcr_devcluster.cluster.scheduling.gangs import PodGroups, place
from kcr_devcluster.cluster.scheduling.objects import (
    DEFAULT_SCHEDULER,
    PLACED,
    ScheduledNode,
    ScheduledPod,
    group_key,
    members,
    wants_a_node,
)
from kcr_devcluster.cluster.scheduling.placement import Unschedulable, find_node, search
from kcr_devcluster.cluster.scheduling.placements import Placements
from kcr_devcluster.cluster.scheduling.preemption import PREEMPTION_BY_SCHEDULER, Budgets, Preemption

# Pods are bound beside each other, so that a slow request delays one pod only.
WORKERS = 16
# Not a pod: stands for all that wait, after room has been made.
_WAITING = Key("", "waiting pods")


class SchedulerReconciler(Handler[ScheduledPod]):
    """Binds one pod; idempotent. A pod that no node takes is marked, and tried again when something has changed."""

    def __init__(
        self,
        manager: Manager,
        queue: WorkQueue[Key],
        budgets: Callable[[], Budgets],
        groups: type[PodGroup] | None,
    ) -> None:
        """Schedule nothing yet.

        Args:
            manager: Has the informers.
            queue: That of its controller.
            budgets: Returns the PodDisruptionBudgets, which preemption avoids violating.
            groups: The version of groups of pods that is served; None for none.
        """
        self._gangs = PodGroups(manager, groups, self._enqueue_group) if groups is not None else None
        # The message of a gang that has been tried in vain, until something changes.
        self._rejected: dict[Key, str] = {}
        self._queue, self._budgets = queue, budgets
        self._client = manager.client
        self._clock = manager.clock
        self._events = manager.recorder(DEFAULT_SCHEDULER)
        self._pods = manager.store(ScheduledPod)
        self._placements = Placements(manager, self._enqueue_retry, self._enqueue_attentive)
        self._nodes = self._placements.state.nodes
        # Pods that no node took.
        self._unschedulable: dict[Key, PodInfo] = {}
        # Nominated pods (`status.nominatedNodeName`): preemption frees these nodes for them.
        self._nominated: dict[Key, tuple[str, PodInfo]] = {}

    def on_add(self, obj: ScheduledPod, initial: bool) -> None:
        """Enqueue a pod that wants a node."""
        if wants_a_node(obj):
            self._nominate(obj)
            self._forget_rejection(obj)
            self._queue.add(obj.key, *Trigger.added(obj, initial))

    def on_update(self, old: ScheduledPod, new: ScheduledPod) -> None:
        """Enqueue a pod that wants a node, when it asks for something else than before."""
        trigger = Trigger.updated(old, new)
        if not wants_a_node(new):
            self._forget(new.key, trigger)
            return
        self._nominate(new)
        if old.spec != new.spec or not wants_a_node(old):
            self._forget_rejection(new)
            self._queue.add(new.key, *trigger)

    def on_delete(self, obj: ScheduledPod, final_state_unknown: bool) -> None:
        """Forget a pod that has got a node, or is deleted."""
        self._forget(obj.key, Trigger.deleted(obj))

    def _forget(self, key: Key, trigger: Trigger) -> None:
        self._unschedulable.pop(key, None)
        if self._nominated.pop(key, None) is not None:
            # The room that was being freed for it is available to others, unless it is on that node now.
            self._enqueue_retry(trigger)
        if self._placements.has_assumed(key):
            self._queue.add(key, *trigger)

    def _nominate(self, pod: ScheduledPod) -> None:
        node = pod.status.nominated_node_name
        if node:
            self._nominated[pod.key] = (node, PodInfo.of(pod))
        else:
            self._nominated.pop(pod.key, None)

    def set_node(self, node: ScheduledNode, trigger: Trigger) -> None:
        """Take over a node, and try all pods again."""
        self._placements.state.set_node(node)
        self._enqueue_waiting(trigger)

    def remove_node(self, node: ScheduledNode, trigger: Trigger) -> None:
        """Take a node away, and try all pods again: their conditions name the number of nodes."""
        self._placements.state.remove_node(node.metadata.name)
        self._enqueue_waiting(trigger)

    def _forget_rejection(self, pod: ScheduledPod) -> None:
        """Have the gang of a pod tried again: it has one more pod that wants a node."""
        if (key := group_key(pod)) is not None:
            self._rejected.pop(key, None)

    def _enqueue_group(self, key: Key, trigger: Trigger) -> None:
        self._rejected.pop(key, None)
        for pod in members(self._pods.snapshot(), key):
            self._queue.add(pod.key, *trigger)

    def _enqueue_waiting(self, trigger: Trigger) -> None:
        self._rejected.clear()
        for info in self._in_turn():
            self._queue.add(info.key, *trigger)

    def _enqueue_attentive(self, trigger: Trigger) -> None:
        """Retry all if an unschedulable pod has inter-pod affinity or topology spread constraints."""
        if any(info.minds_others for info in self._unschedulable.values()):
            self._rejected.clear()
            self._queue.add(_WAITING, *trigger)

    def _enqueue_retry(self, trigger: Trigger) -> None:
        if self._unschedulable:
            self._rejected.clear()
            self._queue.add(_WAITING, *trigger)

    def _in_turn(self) -> list[PodInfo]:
        """Return the pods that no node took, in the order of their turn: by priority, then by age.

        Source: kubernetes/pkg/scheduler/framework/plugins/queuesort/priority_sort.go.
        """
        now = self._clock.now()
        return sorted(
            self._unschedulable.values(),
            key=lambda info: (-info.priority, info.pod.metadata.creation_timestamp or now, info.key),
        )

    async def reconcile(self, key: Key) -> Result:
        """Bind a pod to its best node; or free a node for it; or mark it as unschedulable."""
        if key == _WAITING:
            self._retry()
            return Result()
        pod = self._pods.get(key)
        if pod is None or not wants_a_node(pod):
            await self._resolve(key)
            return Result()
        info = PodInfo.of(pod)
        await self._placements.count_for(info)
        node = self._placements.assumed_node(pod)
        if node is None:
            if not self._nodes:
                # Nothing is written: the cluster has just started, and the node is about to register.
                self._unschedulable[key] = info
                return Result()
            if await self._wait_for_gang(pod, info):
                return Result()
            namespaces = self._placements.namespaces()
            found = find_node(info, self._nodes, self._nominated, namespaces, self._budgets())
            if isinstance(found, Unschedulable):
                self._unschedulable[key] = info
                await self._reject(pod, found)
                return Result()
            node = found
            self._assume(info, node)
        await self._bind(pod, node)
        return Result()

    async def _wait_for_gang(self, pod: ScheduledPod, info: PodInfo) -> bool:
        """Place the gang of a pod, all at once; return whether the pod needs no node of its own now.

        Source: KEP-4671, The Workload Scheduling Cycle.
        """
        key = group_key(pod)
        if self._gangs is None or key is None:
            return False
        group = await self._gangs.get(key)
        # Nothing is awaited from here to the placement, so that each other decision is counted.
        gang = None if group is None or group.spec.scheduling_policy is None else group.spec.scheduling_policy.gang
        if group is not None and gang is None:
            return False
        self._unschedulable[pod.key] = info
        if group is None or gang is None:
            # As upstream, nothing is written before the group exists, and enough of its pods.
            return True
        if not (message := self._rejected.get(key, "")):
            placed, waiting = self._placements.count_of(key), self._waiting_members(key)
            if placed >= gang.min_count:
                return False
            if placed + len(waiting) < gang.min_count:
                return True
            message = self._place_gang(waiting, placed, gang.min_count)
            if message:
                self._rejected[key] = message
            for one in waiting:
                self._queue.add(one.key)
        await self._gangs.mark(group, message)
        if message:
            await self._reject(pod, Unschedulable(f"gang {key.name}: {message}"))
        return True

    def _waiting_members(self, group: Key) -> list[PodInfo]:
        wanting = (PodInfo.of(pod) for pod in members(self._pods.snapshot(), group) if wants_a_node(pod))
        return [info for info in wanting if self._placements.assumed_node(info.pod) is None]

    def _place_gang(self, waiting: Sequence[PodInfo], placed: int, size: int) -> str:
        """Assume the pods of a gang on nodes, if enough of them can be placed; else return why not."""
        trial = place(waiting, size - placed, self._nodes, self._nominated, self._placements.namespaces())
        if trial.message:
            return f"{placed + len(trial.placed)} of {size} pods can be placed; waits for room: {trial.message}"
        for info, node in trial.placed:
            self._assume(info, node)
        return ""

    def _retry(self) -> None:
        """Find nodes for the pods that wait, now that there is more room.

        Room that does not do for one pod does not do for another that asks for the same and comes later, so of many
        equal pods only the first is tried in vain.
        """
        rejected: set[bytes] = set()
        for info in self._in_turn():
            metadata = info.pod.metadata
            if self._gangs is not None and group_key(info.pod) is not None:
                # Its gang is placed as a whole, or not.
                self._queue.add(info.key)
                continue
            asks = msgspec.msgpack.encode((info.pod.spec, metadata.namespace, metadata.labels))
            if asks in rejected and info.key not in self._nominated:
                continue
            if node := search(info, self._nodes, self._nominated, self._placements.namespaces()).node:
                self._assume(info, node)
                self._queue.add(info.key)
                continue
            rejected.add(asks)
            if info.key in self._nominated:
                # Another pod was quicker: it may free a node once more.
                self._queue.add(info.key)

    def _assume(self, info: PodInfo, node: str) -> None:
        self._placements.assume(info, node)
        self._unschedulable.pop(info.key, None)

    async def _bind(self, pod: ScheduledPod, node: str) -> None:
        try:
            await self._client.bind(pod.key, node, uid=pod.metadata.uid)
        except ApiError as error:
            self._placements.withdraw(pod)
            if not isinstance(error, ConflictError | NotFoundError):  # these: a watch event follows
                raise
        else:
            self._placements.confirm(pod)
            self._events.event(pod, "Normal", "Scheduled", f"Successfully assigned {pod.key} to {node}")

    async def _resolve(self, key: Key) -> None:
        """Forget the decision about a pod that waits no more, unless the live pod has a node or still waits.

        The response of the server was lost, so the outcome of the decision is not known.
        """
        if not self._placements.has_assumed(key):
            return
        try:
            pod = await self._client.get(ScheduledPod, key)
        except NotFoundError:
            self._placements.forget(key)
        else:
            if not pod.spec.node_name and not wants_a_node(pod):
                self._placements.forget(key)

    async def _reject(self, pod: ScheduledPod, found: Unschedulable) -> None:
        with suppress(ConflictError, NotFoundError):  # changed or deleted meanwhile: a watch event follows
            node = pod.status.nominated_node_name
            if found.preemption is not None:
                node = found.preemption.node
                # At once: the room that becomes free is not for pods of lower priority.
                self._nominated[pod.key] = (node, PodInfo.of(pod))
                await self._evict(pod, found.preemption)
            elif not found.message.endswith("nominated node."):
                node = ""
            await self._mark(pod, found.message, node)

    async def _evict(self, pod: ScheduledPod, preemption: Preemption) -> None:
        """Delete the victims, and clear the nomination of pods of lower priority for this node."""
        for victim in preemption.victims:
            with suppress(NotFoundError):  # deleted meanwhile
                await self._evict_one(pod, victim, preemption.node)
        for key, (node, info) in tuple(self._nominated.items()):
            if node == preemption.node and info.priority < (pod.spec.priority or 0):
                self._nominated.pop(key, None)
                with suppress(NotFoundError):
                    await self._patch_status(info.pod, {"nominatedNodeName": None})
                self._queue.add(key)

    async def _evict_one(self, pod: ScheduledPod, victim: PodInfo, node: str) -> None:
        if victim.pod.metadata.deletion_timestamp is not None:
            return
        condition = Condition(
            type="DisruptionTarget", status="True", reason=PREEMPTION_BY_SCHEDULER,
            message=f"{DEFAULT_SCHEDULER}: preempting to accommodate a higher priority pod",
            last_transition_time=whole_seconds(self._clock.now()),
        )  # fmt: skip
        await self._patch_status(victim.pod, {"conditions": [condition]})
        await self._client.delete(ScheduledPod, victim.key, uid=victim.uid)
        self._events.event(victim.pod, "Normal", "Preempted", f"Preempted by pod {pod.metadata.uid} on node {node}")

    async def _mark(self, pod: ScheduledPod, message: str, nominated: str) -> None:
        """Say why a pod has no node, in its condition and in an event, and nominate the node that preemption frees."""
        present = find_condition(pod.status.conditions, "PodScheduled")
        said = present is not None and (present.status, present.message) == ("False", message)
        if said and pod.status.nominated_node_name == nominated:
            return
        status: dict[str, object] = {}
        if not said:
            lasts = present is not None and present.status == "False"
            status["conditions"] = [
                Condition(
                    type="PodScheduled", status="False", reason="Unschedulable", message=message,
                    last_transition_time=present.last_transition_time if present is not None and lasts
                    else whole_seconds(self._clock.now()),
                )
            ]  # fmt: skip
        if pod.status.nominated_node_name != nominated:
            status["nominatedNodeName"] = nominated or None
        await self._patch_status(pod, status)
        if not said:
            self._events.event(pod, "Warning", "FailedScheduling", message)

    async def _patch_status(self, pod: ScheduledPod, status: Mapping[str, object]) -> None:
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        await self._client.strategic_patch(ScheduledPod, pod.key, patch, subresource="status")


class _Nodes(Handler[ScheduledNode]):
    """Tells the scheduler of changes of nodes that matter; heartbeats do not."""

    def __init__(self, scheduler: SchedulerReconciler) -> None:
        self._scheduler = scheduler

    def on_add(self, obj: ScheduledNode, initial: bool) -> None:
        self._scheduler.set_node(obj, Trigger.added(obj, initial))

    def on_update(self, old: ScheduledNode, new: ScheduledNode) -> None:
        if _shown(old) != _shown(new):
            self._scheduler.set_node(new, Trigger.updated(old, new))

    def on_delete(self, obj: ScheduledNode, final_state_unknown: bool) -> None:
        self._scheduler.remove_node(obj, Trigger.deleted(obj))


def _shown(node: ScheduledNode) -> tuple[object, ...]:
    """Return the parts of a node that decide about pods."""
    states = tuple((one.type, one.status) for one in node.status.conditions)
    return node.spec, node.metadata.labels, node.status.allocatable, states


def setup(manager: Manager, budgets: Callable[[], Budgets] = tuple, groups: type[PodGroup] | None = None) -> None:
    """Add the scheduler to a manager.

    Args:
        manager: Runs it.
        budgets: Returns the PodDisruptionBudgets, which preemption avoids violating.
        groups: The version of groups of pods that is served; None for none.
    """
    manager.select(Selection(ScheduledPod, fields="spec.nodeName="))
    manager.select(PLACED)
    queue = manager.queue("scheduler")
    reconciler = SchedulerReconciler(manager, queue, budgets, groups)
    manager.add_controller("scheduler", reconciler, workers=WORKERS, own_writes=False, watches=(), queue=queue)
    manager.informer(ScheduledNode).add_handler(_Nodes(reconciler))
    manager.informer(ScheduledPod).add_handler(reconciler)
