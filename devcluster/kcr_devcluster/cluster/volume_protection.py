"""Volume protection: removes the finalizers of terminating claims and volumes once nothing uses them.

A claim is used by the pods of its namespace that are on a node and name it, finished or not; a volume while bound.
The API server gives both their finalizers, see `StorageObjectInUseProtection`. Pods are watched from the first
terminating claim on that is in use; whether one uses the claim is decided by a live list.

Source: kubernetes/pkg/controller/volume/{pvcprotection,pvprotection}.
"""

from contextlib import suppress

from kcr.api.core import Pod
from kcr.api.full.core_v1 import PersistentVolumeClaim
from kcr.api.full.core_v1 import Pod as FullPod
from kcr.api.meta import Key, Object, PartialObjectMetadata, Resource, metadata_only
from kcr.controller import Result, watch
from kcr.errors import NotFoundError
from kcr.informer import Handler, Trigger
from kcr.manager import Manager
from kcr_devcluster.apiserver.plugins.volumes import CLAIM_PROTECTION, VOLUME_PROTECTION


class VolumeStatus(Object):
    """The part of the status of a PersistentVolume that is read here."""

    phase: str = ""


class Volume(Resource, api_version="v1", kind="PersistentVolume", plural="persistentvolumes", namespaced=False):
    """PersistentVolume of core/v1, as far as it is read here."""

    status: VolumeStatus = VolumeStatus()


class ClaimProtectionReconciler(Handler[PartialObjectMetadata]):
    """Reconciles one claim: a terminating one that no pod uses loses its finalizer."""

    def __init__(self, manager: Manager) -> None:
        self._manager, self._client = manager, manager.client
        self._claims = manager.store(metadata_only(PersistentVolumeClaim))
        # Terminating claims that pods may use. A key is here before the pods are listed, so that no deletion is missed.
        self._used: set[Key] = set()
        self._is_watching = False
        watches = [watch(metadata_only(PersistentVolumeClaim))]
        self._queue = manager.add_controller("pvc-protection", self, watches=watches).queue

    def on_delete(self, obj: PartialObjectMetadata, final_state_unknown: bool) -> None:
        """Enqueue the terminating claims of the namespace of a deleted pod."""
        for key in self._used:
            if key.namespace == obj.metadata.namespace:
                self._queue.add(key, *Trigger.deleted(obj))

    async def reconcile(self, key: Key) -> Result:
        """Remove the finalizer of a claim, or wait for the end of the pods that use it."""
        claim = self._claims.get(key)
        if claim is None or not _is_held(claim, CLAIM_PROTECTION):
            self._used.discard(key)
            return Result()
        self._used.add(key)
        await self._watch_pods()
        pods = await self._client.list(FullPod, key.namespace)
        if not any(uses(pod, key.name) for pod in pods):
            await _release(self._manager, claim, CLAIM_PROTECTION)
            self._used.discard(key)
        return Result()

    async def _watch_pods(self) -> None:
        informer = self._manager.informer(metadata_only(Pod))
        if not self._is_watching:
            self._is_watching = True
            informer.add_handler(self)
        await informer.wait_synced()


class VolumeProtectionReconciler:
    """Reconciles one volume: a terminating one that is not bound loses its finalizer."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._volumes = manager.store(Volume)
        manager.add_controller("pv-protection", self, watches=[watch(Volume)])

    async def reconcile(self, key: Key) -> Result:
        """Remove the finalizer of a volume; its next version is reconciled again."""
        volume = self._volumes.get(key)
        if volume is not None and _is_held(volume, VOLUME_PROTECTION) and volume.status.phase != "Bound":
            await _release(self._manager, volume, VOLUME_PROTECTION)
        return Result()


def uses(pod: FullPod, claim: str) -> bool:
    """Return whether a pod that is on a node uses a claim of its namespace.

    Args:
        pod: The pod.
        claim: The name of the claim.
    """
    if not pod.spec.node_name:
        return False
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None and volume.persistent_volume_claim.claim_name == claim:
            return True
        if volume.ephemeral is not None and f"{pod.metadata.name}-{volume.name}" == claim:
            return True
    return False


def _is_held(obj: PartialObjectMetadata | Volume, finalizer: str) -> bool:
    return obj.metadata.deletion_timestamp is not None and finalizer in obj.metadata.finalizers


async def _release(manager: Manager, obj: PartialObjectMetadata | Volume, finalizer: str) -> None:
    """Remove a finalizer; other finalizers of the version at hand stay."""
    left = [one for one in obj.metadata.finalizers if one != finalizer]
    metadata = {"uid": obj.metadata.uid, "resourceVersion": obj.metadata.resource_version, "finalizers": left}
    with suppress(NotFoundError):  # removed meanwhile
        await manager.client.merge_patch(type(obj), obj.key, {"metadata": metadata})


def setup(manager: Manager) -> None:
    """Add the two controllers."""
    ClaimProtectionReconciler(manager)
    VolumeProtectionReconciler(manager)
