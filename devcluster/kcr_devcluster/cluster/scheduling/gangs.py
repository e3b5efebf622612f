"""Gangs: groups of pods of which none gets a node before so many of them can.

A trial places the pods that wait, one after the other, on copies of the nodes. Pods beyond the size of the gang are
placed with it as far as there is room. A gang that is complete is of no further concern: its other pods are scheduled
each for itself. Preemption is not tried for gangs.

Source: KEP-4671, Scheduling Algorithm; kubernetes/pkg/scheduler/framework/plugins/gangscheduling.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from kcr.api.conditions import find_condition
from kcr.api.meta import Condition, Key, whole_seconds
from kcr.api.scheduling import BetaPodGroup, PodGroup
from kcr.errors import NotFoundError
from kcr.informer import Handler, Trigger
from kcr.manager import Manager
from kcr_devcluster.cluster.scheduling.cluster_state import NodeState, PodInfo
from kcr_devcluster.cluster.scheduling.placement import Nominated, search
from kcr_devcluster.cluster.scheduling.preemption import histogram
from kcr_devcluster.cluster.scheduling.surroundings import Namespaces


class Trial(NamedTuple):
    """The result of placing a gang.

    Attributes:
        placed: Its pods and their nodes.
        message: Why so many are not enough; empty when they are.
    """

    placed: Sequence[tuple[PodInfo, str]]
    message: str = ""


def place(
    waiting: Sequence[PodInfo],
    missing: int,
    nodes: Mapping[str, NodeState],
    nominated: Nominated,
    namespaces: Namespaces,
) -> Trial:
    """Place the pods of a gang; nothing of `nodes` is changed.

    Args:
        waiting: Its pods without a node, in their order.
        missing: How many of them have to be placed at least.
        nodes: All nodes.
        nominated: See `Nominated`.
        namespaces: The labels of namespaces, by name.
    """
    trial = {name: state.copy() for name, state in nodes.items()}
    placed: list[tuple[PodInfo, str]] = []
    reasons: Counter[str] = Counter()
    for info in waiting:
        node, rejections, _ = search(info, trial, nominated, namespaces)
        if node:
            trial[node].add(info)
            placed.append((info, node))
        elif not reasons:
            reasons.update(reason for rejected in rejections.values() for reason in rejected.reasons)
    if len(placed) >= missing:
        return Trial(placed)
    return Trial(placed, f"0/{len(nodes)} nodes are available: {histogram(reasons)}.")


class PodGroups(Handler[PodGroup]):
    """The groups that the server has, and their conditions; they are watched from the first pod with a group on."""

    def __init__(self, manager: Manager, kind: type[PodGroup], on_change: Callable[[Key, Trigger], None]) -> None:
        """Watch no group yet.

        Args:
            manager: Has the informers.
            kind: The version of groups that is served.
            on_change: Called with the key of a group that has come or changed.
        """
        self._manager, self._kind = manager, kind
        self._condition = "PodGroupInitiallyScheduled" if kind is BetaPodGroup else "PodGroupScheduled"
        self._is_watching = False
        self._on_change = on_change

    def on_add(self, obj: PodGroup, initial: bool) -> None:
        """Try the pods that have waited for the group."""
        self._on_change(obj.key, Trigger.added(obj, initial))

    def on_update(self, old: PodGroup, new: PodGroup) -> None:
        """Try the pods of a group whose size has changed."""
        if old.spec != new.spec:
            self._on_change(new.key, Trigger.updated(old, new))

    async def get(self, key: Key) -> PodGroup | None:
        """Return a group; None when there is none."""
        informer = self._manager.informer(self._kind)
        if not self._is_watching:
            self._is_watching = True
            informer.add_handler(self)
        await informer.wait_synced()
        return informer.store.get(key)

    async def mark(self, group: PodGroup, message: str) -> None:
        """Write whether a group is scheduled; once it is, that stays.

        Args:
            group: The group.
            message: Why it is not; empty when it is.
        """
        present = find_condition(group.status.conditions, self._condition)
        status, reason = ("False", "Unschedulable") if message else ("True", "Scheduled")
        if present is not None and (present.status == "True" or present.message == message):
            return
        lasts = present is not None and present.status == status
        changed = present.last_transition_time if present is not None and lasts else self._manager.clock.now()
        condition = Condition(
            type=self._condition, status=status, reason=reason, message=message,
            last_transition_time=whole_seconds(changed) if changed is not None else None,
        )  # fmt: skip
        patch = {"metadata": {"uid": group.metadata.uid}, "status": {"conditions": [condition]}}
        with suppress(NotFoundError):  # deleted meanwhile
            await self._manager.client.strategic_patch(self._kind, group.key, patch, subresource="status")
