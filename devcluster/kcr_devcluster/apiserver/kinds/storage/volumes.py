"""The strategies of PersistentVolumes, StorageClasses and CSI drivers.

Source: kubernetes/pkg/apis/core/validation/validation.go, ValidatePersistentVolumeSpec and
ValidatePersistentVolumeUpdate; pkg/apis/storage/validation/validation.go, ValidateStorageClass.
"""

from kcr_devcluster.apiserver.kinds.generic import Conform, Rules
from kcr_devcluster.apiserver.kinds.storage.claims import VOLUME_MODES, check_modes
from kcr_devcluster.apiserver.kinds.storage.sources import check_driver_name, check_nfs
from kcr_devcluster.apiserver.protocol.field_errors import (
    IMMUTABLE,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kcr_devcluster.apiserver.protocol.manifests import Manifest, semantic_equal
from kcr_devcluster.apiserver.protocol.names import dns_subdomain, qualified_name
from kcr_devcluster.apiserver.schema.builtin import type_shape
from kcr_devcluster.apiserver.schema.go_values import difference
from kcr_devcluster.apiserver.schema.quantities import amount

_RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
_CLASS_POLICIES, _BINDING_MODES = ("Delete", "Retain"), ("Immediate", "WaitForFirstConsumer")
# The fields of the spec that are no source of a volume.
_NO_SOURCES = frozenset({
    "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy",
    "storageClassName", "volumeAttributesClassName", "volumeMode",
})  # fmt: skip
_LIFECYCLES = ("Persistent", "Ephemeral")
_FIXED_SOURCE = "spec.persistentvolumesource is immutable after creation"


def _sources(spec: Manifest) -> list[str]:
    """Return which sources a volume has."""
    known = type_shape("core.v1.PersistentVolumeSpec").fields.keys() - _NO_SOURCES
    return sorted(name for name in known if spec.get(name) is not None)


def _default_volume(obj: Manifest, conform: Conform) -> None:
    """Fill in the spec."""
    if obj.get("spec") is None:
        obj["spec"] = {}
    conform(obj)


def _validate_volume(obj: Manifest) -> list[FieldError]:
    """Return the field errors of a volume."""
    spec, sources = obj["spec"], _sources(obj["spec"])
    errors = check_modes(spec.get("accessModes") or [], "spec.accessModes", "")
    errors += _check_capacity(spec.get("capacity") or {})
    policy, mode = spec["persistentVolumeReclaimPolicy"], spec["volumeMode"]
    if policy not in _RECLAIM_POLICIES:
        errors.append(not_supported("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM_POLICIES))
    if not sources:
        errors.append(required("spec", "must specify a volume type"))
    errors += [forbidden(f"spec.{name}", "may not specify more than 1 volume type") for name in sources[1:]]
    if (spec.get("hostPath") or {}).get("path") == "/" and policy == "Recycle":
        words = "may not be 'recycle' for a hostPath mount of '/'"
        errors.append(forbidden("spec.persistentVolumeReclaimPolicy", words))
    if nfs := spec.get("nfs"):
        errors += check_nfs(nfs, "spec.nfs")
    if sources == ["local"] and not spec.get("nodeAffinity"):
        errors.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    if name := spec.get("storageClassName"):
        errors += [invalid("spec.storageClassName", name, reason) for reason in dns_subdomain(name)]
    return errors if mode in VOLUME_MODES else [*errors, not_supported("spec.volumeMode", mode, VOLUME_MODES)]


def _validate_update_volume(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return the field errors of an update."""
    errors, (after, before) = _validate_volume(new), (new["spec"], old["spec"])
    if any(not semantic_equal(after.get(name), before.get(name)) for name in {*_sources(after), *_sources(before)}):
        changes = difference("core.v1.PersistentVolumeSource", before, after)
        errors.append(forbidden("spec.persistentvolumesource", f"{_FIXED_SOURCE}\n{changes}"))
    if after["volumeMode"] != before["volumeMode"]:
        errors.append(invalid("volumeMode", after["volumeMode"], IMMUTABLE))
    return errors


def _check_capacity(capacity: Manifest) -> list[FieldError]:
    errors = [] if capacity else [required("spec.capacity")]
    if capacity.keys() != {"storage"}:
        errors.append(not_supported("spec.capacity", capacity, ("storage",)))
    for name, value in sorted(capacity.items()):
        if amount(value) <= 0:
            errors.append(invalid(f"spec.capacity[{name}]", value, "must be greater than zero"))
    return errors


def _default_driver(obj: Manifest, conform: Conform) -> None:
    """Fill in in which ways volumes live."""
    conform(obj)
    if not obj["spec"].get("volumeLifecycleModes"):
        obj["spec"]["volumeLifecycleModes"] = [_LIFECYCLES[0]]


def _validate_driver(obj: Manifest) -> list[FieldError]:
    """Return the field errors of a driver."""
    modes = obj["spec"]["volumeLifecycleModes"]
    return [not_supported("spec.volumeLifecycleModes", one, _LIFECYCLES) for one in modes if one not in _LIFECYCLES]


def _default_node(obj: Manifest, conform: Conform) -> None:
    """Have no list where it is empty, as after a passage through protobuf."""
    conform(obj)
    if "spec" in obj:
        obj["spec"]["drivers"] = obj["spec"].get("drivers") or None


def _validate_node(obj: Manifest) -> list[FieldError]:
    """Return the field errors of the drivers: each needs a unique name and the id of its node."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for position, driver in enumerate((obj.get("spec") or {}).get("drivers") or ()):
        field, name = f"spec.drivers[{position}]", driver.get("name", "")
        errors += check_driver_name(name, f"{field}.name")
        errors += [] if driver.get("nodeID") else [required(f"{field}.nodeID")]
        errors += [duplicate(f"{field}.name", name)] if name in seen else []
        seen.add(name)
    return errors


def _validate_class(obj: Manifest) -> list[FieldError]:
    """Return the field errors of a class."""
    provisioner, policy, mode = (obj.get(one) for one in ("provisioner", "reclaimPolicy", "volumeBindingMode"))
    errors = [] if provisioner else [required("provisioner")]
    reasons = qualified_name(provisioner.lower()) if provisioner else ()
    errors += [invalid("provisioner", provisioner, reason) for reason in reasons]
    if policy not in _CLASS_POLICIES:
        errors.append(not_supported("reclaimPolicy", policy, _CLASS_POLICIES))
    if mode not in _BINDING_MODES:
        errors.append(not_supported("volumeBindingMode", mode, _BINDING_MODES))
    return errors


def _validate_update_class(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return the field errors of an update."""
    errors = _validate_class(new)
    for name in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        if not semantic_equal(new.get(name), old.get(name)):
            errors.append(invalid(name, new.get(name), IMMUTABLE))
    return errors


# PersistentVolumes: one source, which never changes.
VOLUMES = Rules(
    stored_as=("v1", "PersistentVolume"),
    default=_default_volume,
    status=lambda obj: {"phase": "Pending", "lastPhaseTransitionTime": obj["metadata"]["creationTimestamp"]},
    validate=_validate_volume,
    validate_update=_validate_update_volume,
)
# CSIDrivers: the capabilities of a driver of volumes.
DRIVERS = Rules(
    stored_as=("storage.k8s.io/v1", "CSIDriver"),
    default=_default_driver,
    validate=_validate_driver,
)
# CSINodes: the drivers of volumes on a node, none at first.
NODE_DRIVERS = Rules(
    stored_as=("storage.k8s.io/v1", "CSINode"),
    default=_default_node,
    validate=_validate_node,
)
# StorageClasses: the provisioner, its parameters, the reclaim policy and the binding mode are immutable.
STORAGE_CLASSES = Rules(
    stored_as=("storage.k8s.io/v1", "StorageClass"),
    validate=_validate_class,
    validate_update=_validate_update_class,
)
