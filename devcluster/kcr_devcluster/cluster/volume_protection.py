"""Volume protection: removes the finalizers of terminating claims, volumes and classes once nothing uses them.

A claim is used by the pods of its namespace that are on a node and name it, finished or not; a volume while bound; a
VolumeAttributesClass by claims and volumes that name it. The API server sets the finalizers, see
`StorageObjectInUseProtection`. Pods are watched from the first terminating claim on; live lists decide about the use.

Source: kubernetes/pkg/controller/volume/{pvcprotection,pvprotection,vacprotection}.
"""

from contextlib import suppress

from kcr.api.core import Pod
from kcr.api.full.core_v1 import Pod as FullPod
from kcr.api.meta import Key, Object, PartialObjectMetadata, Resource, metadata_only
from kcr.controller import Result, watch
from kcr.errors import NotFoundError
from kcr.informer import Handler, Trigger
from kcr.manager import Manager
from kcr_devcluster.apiserver.kinds.gangs import BETA_POD_GROUPS
from kcr_devcluster.apiserver.plugins.volumes import CLAIM_PROTECTION, CLASS_PROTECTION, PROTECTION, VOLUME_PROTECTION

PROTECTED = tuple(kind for kind in PROTECTION if kind is not BETA_POD_GROUPS)


class VolumeSpec(Object):
    """The part of the spec of a claim or a volume that is read here."""

    volume_attributes_class_name: str = ""


class ModifyVolumeStatus(Object):
    """The change of the class of a claim that is under way."""

    target_volume_attributes_class_name: str = ""


class VolumeStatus(Object):
    """The part of the status of a claim or a volume that is read here."""

    phase: str = ""
    current_volume_attributes_class_name: str = ""
    modify_volume_status: ModifyVolumeStatus = ModifyVolumeStatus()


class Claim(Resource, api_version="v1", kind="PersistentVolumeClaim", plural="persistentvolumeclaims"):
    """PersistentVolumeClaim of core/v1, as far as it is read here."""

    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()


class Volume(Resource, api_version="v1", kind="PersistentVolume", plural="persistentvolumes", namespaced=False):
    """PersistentVolume of core/v1, as far as it is read here."""

    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()


class VolumeClass(
    Resource,
    api_version="storage.k8s.io/v1",
    kind="VolumeAttributesClass",
    plural="volumeattributesclasses",
    namespaced=False,
):
    """VolumeAttributesClass of storage.k8s.io/v1, as far as it is read here."""


class ClaimProtectionReconciler(Handler[PartialObjectMetadata]):
    """Reconciles one claim: a terminating one that no pod uses loses its finalizer."""

    def __init__(self, manager: Manager) -> None:
        self._manager, self._client = manager, manager.client
        self._claims = manager.store(Claim)
        # Terminating claims that pods may use. A key is here before the pods are listed, so that no deletion is missed.
        self._used: set[Key] = set()
        self._is_watching = False
        self._queue = manager.add_controller("pvc-protection", self, watches=[watch(Claim)]).queue

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


class ClassProtectionReconciler:
    """Reconciles one VolumeAttributesClass: a terminating one that nothing names loses its finalizer."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._classes = manager.store(VolumeClass)
        watches = [watch(VolumeClass), watch(Claim, map_to=classes_of), watch(Volume, map_to=classes_of)]
        manager.add_controller("vac-protection", self, watches=watches)

    async def reconcile(self, key: Key) -> Result:
        """Remove the finalizer of a class; each change of a claim or a volume that names it comes here again."""
        known = self._classes.get(key)
        if known is None or not _is_held(known, CLASS_PROTECTION):
            return Result()
        client = self._manager.client
        claims, volumes = await client.list(Claim), await client.list(Volume)
        if not any(key in classes_of(one) for one in claims) and not any(key in classes_of(one) for one in volumes):
            await _release(self._manager, known, CLASS_PROTECTION)
        return Result()


def classes_of(obj: Claim | Volume) -> list[Key]:
    """Return the VolumeAttributesClasses that a claim or a volume names.

    Args:
        obj: The claim or the volume.
    """
    status = obj.status
    names = {
        obj.spec.volume_attributes_class_name,
        status.current_volume_attributes_class_name,
        status.modify_volume_status.target_volume_attributes_class_name,
    }
    return [Key("", name) for name in sorted(names - {""})]


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


def _is_held(obj: Claim | Volume | VolumeClass, finalizer: str) -> bool:
    return obj.metadata.deletion_timestamp is not None and finalizer in obj.metadata.finalizers


async def _release(manager: Manager, obj: Claim | Volume | VolumeClass, finalizer: str) -> None:
    """Remove a finalizer; other finalizers of the version at hand stay."""
    left = [one for one in obj.metadata.finalizers if one != finalizer]
    metadata = {"uid": obj.metadata.uid, "resourceVersion": obj.metadata.resource_version, "finalizers": left}
    with suppress(NotFoundError):  # removed meanwhile
        await manager.client.merge_patch(type(obj), obj.key, {"metadata": metadata})


def setup(manager: Manager) -> None:
    """Add the three controllers."""
    ClaimProtectionReconciler(manager)
    VolumeProtectionReconciler(manager)
    ClassProtectionReconciler(manager)
