"""Keeps the state of the cluster up to date: which pods are placed where.

The pods that have nodes are watched from the first pod on whose place depends on others. A single node that has room
for any number of pods takes those that request nothing, whatever else runs there, and most tests have no others.
"""

from collections.abc import Callable, Mapping

from kcr.api.core import Namespace
from kcr.api.meta import Key
from kcr.informer import Handler, Informer, Trigger
from kcr.manager import Manager
from kcr_devcluster.cluster.scheduling.cluster_state import ClusterState, PodInfo
from kcr_devcluster.cluster.scheduling.objects import PlacedPod, ScheduledPod, group_key, members
from kcr_devcluster.cluster.scheduling.requests import ONE

# A node that takes so many pods takes any number.
_PLENTY = 10_000 * ONE


class Placements(Handler[PlacedPod]):
    """Placements of pods: those that the server shows, and decisions that it does not show yet.

    Attributes:
        state: The nodes and their pods.
    """

    def __init__(
        self, manager: Manager, on_room: Callable[[Trigger], None], on_neighbour: Callable[[Trigger], None]
    ) -> None:
        """Place no pod yet.

        Args:
            manager: Has the informers.
            on_room: Called when a pod has left its node, with the event that shows it.
            on_neighbour: Called when a pod has come to a node, or its labels have changed, with the event that shows
                it.
        """
        self.state = ClusterState()
        self._on_room, self._on_neighbour = on_room, on_neighbour
        self._manager = manager
        self._informer: Informer[PlacedPod] | None = None
        self._namespaces: Informer[Namespace] | None = None
        # Decisions whose outcome is not known yet: the pod's uid and the node.
        self._assumed: dict[Key, tuple[str, str]] = {}

    async def count_for(self, info: PodInfo) -> None:
        """Return when the pods that have nodes are counted, if that matters for the place of a pod."""
        if self._informer is None:
            if not self._matter_for(info):
                return
            self._informer = self._manager.informer(PlacedPod)
            self._informer.add_handler(self)
        if not self._informer.store.synced:
            await self._informer.wait_synced()
        if self._namespaces is None and _selects_namespaces(info.pod):
            self._namespaces = self._manager.informer(Namespace)
            await self._namespaces.wait_synced()

    def _matter_for(self, info: PodInfo) -> bool:
        nodes = self.state.nodes.values()
        few = any(node.allocatable.get("pods", 0) < _PLENTY for node in nodes)
        is_member = group_key(info.pod) is not None
        return bool(info.requests or info.ports or info.minds_others or few or len(nodes) > 1 or is_member)

    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """Return the labels of the namespaces, by name; nothing until a pod asks for namespaces by their labels."""
        if self._namespaces is None:
            return {}
        return {one.metadata.name: one.metadata.labels for one in self._namespaces.store.snapshot()}

    def assume(self, info: PodInfo, node: str) -> None:
        """Assume a pod: count it on the chosen node before the server shows its binding."""
        self._assumed[info.key] = (info.uid, node)
        if self._informer is not None:
            self.state.place(info, node)

    def assumed_node(self, pod: ScheduledPod) -> str | None:
        """Return the node that has been decided on for a pod, None when there is none or the server shows it."""
        uid, node = self._assumed.get(pod.key, ("", ""))
        return node if uid == pod.metadata.uid else None

    def confirm(self, pod: ScheduledPod) -> None:
        """Note that the server has accepted the decision about a pod."""
        if self.assumed_node(pod) is not None:
            del self._assumed[pod.key]

    def withdraw(self, pod: ScheduledPod) -> None:
        """Forget an assumed pod, unless the server shows it on a node."""
        if self.assumed_node(pod) is not None:
            del self._assumed[pod.key]
            self._remove(pod.key, Trigger())

    def has_assumed(self, key: Key) -> bool:
        """Return whether the outcome of a decision about a pod of this name is not known."""
        return key in self._assumed

    def count_of(self, group: Key) -> int:
        """Return how many pods of a group have nodes, and are not being deleted."""
        infos = (info for node in self.state.nodes.values() for info in node.pods.values())
        return len(members((info.pod for info in infos), group))

    def forget(self, key: Key) -> None:
        """Take back the decision about a pod that no longer exists."""
        if self._assumed.pop(key, None) is not None:
            self._remove(key, Trigger())

    def on_add(self, obj: PlacedPod, initial: bool) -> None:
        """Count the pod."""
        self._assumed.pop(obj.key, None)
        self.state.place(PodInfo.of(obj), obj.spec.node_name)
        self._on_neighbour(Trigger.added(obj, initial))

    def on_update(self, old: PlacedPod, new: PlacedPod) -> None:
        """Count the pod as it is now."""
        self.state.place(PodInfo.of(new), new.spec.node_name)
        if _seen_by_others(old) != _seen_by_others(new):
            self._on_neighbour(Trigger.updated(old, new))

    def on_delete(self, obj: PlacedPod, final_state_unknown: bool) -> None:
        """Count the pod no longer: it is deleted or has ended."""
        self._remove(obj.key, Trigger.deleted(obj))

    def _remove(self, key: Key, trigger: Trigger) -> None:
        if self.state.remove(key) is not None:
            self._on_room(trigger)


def _seen_by_others(pod: PlacedPod) -> tuple[object, ...]:
    return pod.metadata.labels, pod.metadata.deletion_timestamp is None


def _selects_namespaces(pod: ScheduledPod) -> bool:
    """Return whether a pod is to be near to, or far from, pods in namespaces with some labels."""
    affinity = pod.spec.affinity
    if affinity is None:
        return False
    kinds = [one for one in (affinity.pod_affinity, affinity.pod_anti_affinity) if one is not None]
    terms = [term for kind in kinds for term in kind.required_during_scheduling_ignored_during_execution]
    terms += [
        weighted.pod_affinity_term
        for kind in kinds
        for weighted in kind.preferred_during_scheduling_ignored_during_execution
    ]
    return any(term.namespace_selector is not None for term in terms)
