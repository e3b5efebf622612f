"""Scheduler: binds pods to a node that takes them.

A node takes a pod unless it is cordoned or its labels do not match the pod's node selector; resources are not counted.

Source: kubernetes/pkg/scheduler/schedule_one.go, schedulePod, bind, handleSchedulingFailure.
"""

from collections import Counter
from contextlib import suppress

from kcr.api.conditions import find_condition, is_condition_true
from kcr.api.core import Node
from kcr.api.kubelet import KubeletPod
from kcr.api.meta import Condition, Key, whole_seconds
from kcr.api.pods import is_terminal
from kcr.controller import Result, watch
from kcr.errors import ConflictError, NotFoundError
from kcr.informer import Selection
from kcr.manager import Manager

SCHEDULER = "default-scheduler"
# Pods are bound beside each other, so that a slow request delays one pod only.
WORKERS = 16


def wants_a_node(pod: KubeletPod) -> bool:
    """Return whether a pod waits for a node, and may have one."""
    spec = pod.spec
    if spec.node_name or spec.scheduling_gates or is_terminal(pod) or pod.metadata.deletion_timestamp is not None:
        return False
    return (spec.scheduler_name or SCHEDULER) == SCHEDULER


def obstacle(pod: KubeletPod, node: Node) -> str:
    """Return why a node does not take a pod, in upstream's words; empty when it does."""
    wanted = pod.spec.node_selector
    if not wanted.items() <= node.metadata.labels.items():
        return "node(s) didn't match Pod's node affinity/selector"
    return "node(s) were unschedulable" if node.spec.unschedulable else ""


class SchedulerReconciler:
    """Binds one pod; idempotent. A pod that no node takes is marked, and reconciled again when a node changes."""

    def __init__(self, manager: Manager) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._events = manager.recorder(SCHEDULER)
        self._pods = manager.store(KubeletPod)
        self._pods.add_index("waiting", lambda pod: ("",) if wants_a_node(pod) else ())
        self._nodes = manager.store(Node)

    def waiting(self, _: Node) -> tuple[Key, ...]:
        """Return the keys of the pods that wait for a node."""
        return tuple(pod.key for pod in self._pods.by_index("waiting", ""))

    async def reconcile(self, key: Key) -> Result:
        """Bind the pod to the first node that takes it, or mark it as unschedulable."""
        pod = self._pods.get(key)
        nodes = [node for node in self._nodes.list() if is_condition_true(node.status.conditions, "Ready")]
        # Without a node nothing is written: the cluster has just started, and the node is about to register.
        if pod is None or not nodes or not wants_a_node(pod):
            return Result()
        obstacles = {node.metadata.name: obstacle(pod, node) for node in nodes}
        fitting = sorted(name for name, why in obstacles.items() if not why)
        with suppress(ConflictError, NotFoundError):  # bound, changed or deleted meanwhile: a watch event will tell
            if fitting:
                await self._client.bind(pod.key, fitting[0], uid=pod.metadata.uid)
                self._events.event(pod, "Normal", "Scheduled", f"Successfully assigned {pod.key} to {fitting[0]}")
            else:
                reasons = sorted(f"{count} {why}" for why, count in Counter(obstacles.values()).items())
                await self._mark_unschedulable(pod, f"0/{len(nodes)} nodes are available: {', '.join(reasons)}.")
        return Result()

    async def _mark_unschedulable(self, pod: KubeletPod, message: str) -> None:
        present = find_condition(pod.status.conditions, "PodScheduled")
        if present is not None and (present.status, present.message) == ("False", message):
            return
        condition = Condition(
            type="PodScheduled", status="False", reason="Unschedulable", message=message,
            last_transition_time=whole_seconds(self._clock.now()),
        )  # fmt: skip
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
        await self._client.strategic_patch(KubeletPod, pod.key, patch, subresource="status")
        self._events.event(pod, "Warning", "FailedScheduling", message)


def setup(manager: Manager) -> None:
    """Add the scheduler to a manager."""
    manager.select(Selection(KubeletPod, fields="spec.nodeName="))
    reconciler = SchedulerReconciler(manager)
    pods = watch(KubeletPod, predicate=lambda _, new: new is not None and wants_a_node(new))
    nodes = watch(Node, map_to=reconciler.waiting)
    manager.add_controller("scheduler", reconciler, watches=[pods, nodes], workers=WORKERS)
