"""Admission of volumes: those in use are not removed, and claims grow only where their class allows it.

Source: kubernetes/plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go;
plugin/pkg/admission/storage/persistentvolume/resize/admission.go.
"""

from collections.abc import Mapping

from kcr_devcluster.apiserver.kinds.catalogue import CLAIMS
from kcr_devcluster.apiserver.kinds.gangs import BETA_POD_GROUPS
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.kinds.served import kind_named
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.responses import forbidden
from kcr_devcluster.apiserver.schema.quantities import amount
from kcr_devcluster.apiserver.storage.admission import AdmissionAttributes, AdmissionContext, AdmissionStep

CLAIM_PROTECTION, VOLUME_PROTECTION = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"
CLASS_PROTECTION = "kubernetes.io/vac-protection"
GROUP_PROTECTION = "scheduling.k8s.io/podgroup-protection"
_VOLUMES = kind_named("v1", "PersistentVolume")
_CLASSES = kind_named("storage.k8s.io/v1", "StorageClass")
_ATTRIBUTES_CLASSES = kind_named("storage.k8s.io/v1", "VolumeAttributesClass")
# The finalizers of each protected kind.
PROTECTION: Mapping[Kind, str] = {
    CLAIMS: CLAIM_PROTECTION,
    _VOLUMES: VOLUME_PROTECTION,
    _ATTRIBUTES_CLASSES: CLASS_PROTECTION,
    BETA_POD_GROUPS: GROUP_PROTECTION,
}
_CLAIM_CLASS = "volume.beta.kubernetes.io/storage-class"


class StorageObjectInUseProtection(AdmissionStep):
    """Gives claims, volumes, their attribute classes and groups of pods the finalizers that keep them while in use."""

    kinds = tuple(PROTECTION)

    def __init__(self, context: AdmissionContext) -> None:
        super().__init__(context)
        self._is_enabled = context.protects_volumes

    def admit(self, attributes: AdmissionAttributes, obj: Manifest) -> None:
        """Add the finalizer to a new object."""
        if self._is_enabled:
            finalizer = PROTECTION[attributes.kind]
            finalizers = obj["metadata"].get("finalizers") or []
            if finalizer not in finalizers:
                obj["metadata"]["finalizers"] = [*finalizers, finalizer]


class PersistentVolumeClaimResize(AdmissionStep):
    """Refuses claims that grow where their StorageClass does not allow it."""

    kinds = (CLAIMS,)

    def check_update(self, attributes: AdmissionAttributes, obj: Manifest, old: Manifest) -> None:
        """Refuse a claim that asks for more than before.

        Raises:
            StatusError: 403, the claim is not bound, or its class does not allow to expand volumes.
        """
        if _size(obj) <= _size(old):
            return
        name = obj["metadata"]["name"]
        if (old.get("status") or {}).get("phase") != "Bound":
            raise forbidden(CLAIMS.type, name, "Only bound persistent volume claims can be expanded")
        record = self._storage.get(_CLASSES, "", _class_of(obj)) if _class_of(obj) == _class_of(old) else None
        if record is None or not record.manifest().get("allowVolumeExpansion"):
            words = "the storageclass that provisions the pvc must support resize"
            raise forbidden(CLAIMS.type, name, f"only dynamically provisioned pvc can be resized and {words}")


def _size(claim: Manifest) -> int:
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return amount(requests.get("storage", "0"))


def _class_of(claim: Manifest) -> str:
    named: str | None = (claim["metadata"].get("annotations") or {}).get(_CLAIM_CLASS)
    return named if named is not None else claim["spec"].get("storageClassName") or ""
