"""PodGroup protection: removes the finalizer of a terminating group once all pods that name it have ended.

The API server sets the finalizer, see `StorageObjectInUseProtection`. Pods are watched from the first terminating group
on.

Source: KEP-4671, PodGroup Deletion Protection.
"""

from contextlib import suppress

from kcr.api.core import Pod, PodSpec
from kcr.api.meta import Key
from kcr.api.pods import is_terminal
from kcr.api.scheduling import BetaPodGroup, SchedulingGroup
from kcr.controller import Result, watch
from kcr.errors import NotFoundError
from kcr.informer import Handler, Trigger
from kcr.manager import Manager
from kcr_devcluster.apiserver.plugins.volumes import GROUP_PROTECTION


class GroupedPodSpec(PodSpec):
    """The spec of a pod, with its group."""

    scheduling_group: SchedulingGroup = SchedulingGroup()


class GroupedPod(Pod):
    """A pod as PodGroup protection reads it."""

    spec: GroupedPodSpec = GroupedPodSpec()


class GroupProtectionReconciler(Handler[GroupedPod]):
    """Reconciles one group: a terminating one whose pods have all ended loses its finalizer."""

    def __init__(self, manager: Manager) -> None:
        """Add the controller to a manager."""
        self._manager = manager
        self._groups = manager.store(BetaPodGroup)
        self._is_watching = False
        self._queue = manager.add_controller("podgroup-protection", self, watches=[watch(BetaPodGroup)]).queue

    def on_update(self, old: GroupedPod, new: GroupedPod) -> None:
        """Enqueue the group of a pod that has ended."""
        if is_terminal(new) and not is_terminal(old):
            self._enqueue(new, Trigger.updated(old, new))

    def on_delete(self, obj: GroupedPod, final_state_unknown: bool) -> None:
        """Enqueue the group of a deleted pod."""
        self._enqueue(obj, Trigger.deleted(obj))

    def _enqueue(self, pod: GroupedPod, trigger: Trigger) -> None:
        if name := pod.spec.scheduling_group.pod_group_name:
            self._queue.add(Key(pod.metadata.namespace, name), *trigger)

    async def reconcile(self, key: Key) -> Result:
        """Remove the finalizer of a group, or wait for the end of its pods."""
        group = self._groups.get(key)
        if group is None or group.metadata.deletion_timestamp is None:
            return Result()
        left = [one for one in group.metadata.finalizers if one != GROUP_PROTECTION]
        if len(left) == len(group.metadata.finalizers):
            return Result()
        informer = self._manager.informer(GroupedPod)
        if not self._is_watching:
            self._is_watching = True
            informer.add_handler(self)
        await informer.wait_synced()
        # Live: a pod that has just been created is not in the store yet.
        pods = await self._manager.client.list(GroupedPod, key.namespace)
        if any(pod.spec.scheduling_group.pod_group_name == key.name and not is_terminal(pod) for pod in pods):
            return Result()
        metadata = {"uid": group.metadata.uid, "resourceVersion": group.metadata.resource_version, "finalizers": left}
        with suppress(NotFoundError):  # removed meanwhile
            await self._manager.client.merge_patch(BetaPodGroup, key, {"metadata": metadata})
        return Result()


def setup(manager: Manager) -> None:
    """Add the controller to a manager."""
    GroupProtectionReconciler(manager)
