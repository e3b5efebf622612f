"""The strategies of PersistentVolumes, StorageClasses and CSI drivers.

Source: kubernetes/pkg/apis/core/validation/validation.go, ValidatePersistentVolumeSpec and
ValidatePersistentVolumeUpdate; pkg/apis/storage/validation/validation.go, ValidateStorageClass.
"""

from collections.abc import Sequence
from posixpath import normpath

from kcr_devcluster.apiserver.kinds.generic import Conform, Rules
from kcr_devcluster.apiserver.kinds.node_selectors import check_node_selector
from kcr_devcluster.apiserver.kinds.storage.claims import VOLUME_MODES, check_modes
from kcr_devcluster.apiserver.kinds.storage.sources import (
    PERSISTENT,
    check_driver_name,
    check_sources,
    check_token_seconds,
)
from kcr_devcluster.apiserver.protocol.field_errors import (
    IMMUTABLE,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    non_negative,
    not_supported,
    required,
    too_long,
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
_LONGEST_ID = 256
_MOST_PARAMETERS, _LARGEST_PARAMETERS = 512, 256 * 1024
_GROUP_POLICIES, _SHORTEST_PERIOD = ("File", "None", "ReadWriteOnceWithFSType"), 10
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
    given = obj["spec"].get("capacity") if isinstance(obj["spec"], dict) else None
    conform(obj)
    if given == {}:
        # The message about it shows whether it was there.
        obj["spec"]["capacity"] = {}


def _validate_volume(obj: Manifest) -> list[FieldError]:
    """Return the field errors of a volume."""
    spec = obj["spec"]
    errors = check_modes(spec.get("accessModes") or [], "spec.accessModes", "")
    errors += _check_capacity(spec.get("capacity"))
    policy, mode, affinity = spec["persistentVolumeReclaimPolicy"], spec["volumeMode"], spec.get("nodeAffinity")
    if policy not in _RECLAIM_POLICIES:
        errors.append(not_supported("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM_POLICIES))
    if affinity is not None:
        errors += _check_affinity(affinity.get("required"), "spec.nodeAffinity.required")
    errors += check_sources(spec, "spec", PERSISTENT)
    if affinity is None and next(filter(spec.get, PERSISTENT), "") == "local":
        errors.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    path = (spec.get("hostPath") or {}).get("path") or "."
    if normpath(path).lstrip("/") == "" and policy == "Recycle":
        words = "may not be 'recycle' for a hostPath mount of '/'"
        errors.append(forbidden("spec.persistentVolumeReclaimPolicy", words))
    if name := spec.get("storageClassName"):
        errors += [invalid("spec.storageClassName", name, reason) for reason in dns_subdomain(name)]
    if mode not in VOLUME_MODES:
        errors.append(not_supported("spec.volumeMode", mode, VOLUME_MODES))
    return errors + _check_attributes_class(spec)


def _check_affinity(selector: Manifest | None, field: str) -> list[FieldError]:
    if selector is None:
        return [required(field, "must specify required node constraints")]
    return check_node_selector(selector, field)


def _check_attributes_class(spec: Manifest) -> list[FieldError]:
    field, name = "spec.volumeAttributesClassName", spec.get("volumeAttributesClassName")
    if name is None:
        return []
    errors = [invalid(field, name, reason) for reason in dns_subdomain(name) if name]
    errors += [] if name else [required(field, "an empty string is disallowed")]
    if spec.get("csi") is None:
        errors.append(required("spec.csi", "has to be specified when using volumeAttributesClassName"))
    return errors


def _validate_update_volume(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return the field errors of an update."""
    errors, (after, before) = _validate_volume(new), (new["spec"], old["spec"])
    if any(not semantic_equal(after.get(name), before.get(name)) for name in {*_sources(after), *_sources(before)}):
        changes = difference("core.v1.PersistentVolumeSource", before, after)
        errors.append(forbidden("spec.persistentvolumesource", f"{_FIXED_SOURCE}\n{changes}"))
    if after["volumeMode"] != before["volumeMode"]:
        errors.append(invalid("volumeMode", after["volumeMode"], IMMUTABLE))
    return errors


def _check_capacity(given: Manifest | None) -> list[FieldError]:
    capacity = given or {}
    errors = [] if capacity else [required("spec.capacity")]
    if capacity.keys() != {"storage"}:
        errors.append(not_supported("spec.capacity", given, ("storage",)))
    for name, value in sorted(capacity.items()):
        if amount(value) <= 0:
            errors.append(invalid(f"spec.capacity[{name}]", value, "must be greater than zero"))
    return errors


def _default_driver(obj: Manifest, conform: Conform) -> None:
    """Fill in in which ways volumes live, and drop the field of a feature that is off."""
    conform(obj)
    obj["spec"].pop("preventPodSchedulingIfMissing", None)
    if not obj["spec"].get("volumeLifecycleModes"):
        obj["spec"]["volumeLifecycleModes"] = [_LIFECYCLES[0]]


def _validate_driver(obj: Manifest) -> list[FieldError]:
    """Return the field errors of a driver."""
    spec, errors = obj["spec"], list[FieldError]()
    policy, period = spec.get("fsGroupPolicy"), spec.get("nodeAllocatableUpdatePeriodSeconds")
    if policy is not None and policy not in _GROUP_POLICIES:
        errors.append(not_supported("spec.fsGroupPolicy", policy, _GROUP_POLICIES))
    requests = spec.get("tokenRequests") or ()
    errors += _check_token_requests(requests, "spec.tokenRequests")
    modes = spec["volumeLifecycleModes"]
    errors += [not_supported("spec.volumeLifecycleModes", one, _LIFECYCLES) for one in modes if one not in _LIFECYCLES]
    if period is not None and period < _SHORTEST_PERIOD:
        words = f"must be greater than or equal to {_SHORTEST_PERIOD} seconds"
        errors.append(invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, words))
    if (shown := spec.get("serviceAccountTokenInSecrets")) is not None and not requests:
        words = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        errors.append(invalid("spec.serviceAccountTokenInSecrets", shown, words))
    return errors


def _check_token_requests(requests: Sequence[Manifest], field: str) -> list[FieldError]:
    """Return the field errors of tokens that a driver asks for."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for position, request in enumerate(requests):
        path, audience, seconds = f"{field}[{position}]", request.get("audience", ""), request.get("expirationSeconds")
        if audience in seen:
            errors.append(duplicate(f"{path}.audience", audience))
        elif seconds is not None:
            errors += check_token_seconds(seconds, f"{path}.expirationSeconds")
        seen.add(audience)
    return errors


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
        errors += _check_node_id(driver.get("nodeID", ""), f"{field}.nodeID")
        errors += non_negative(f"{field}.allocatable.count", (driver.get("allocatable") or {}).get("count"))
        errors += [duplicate(f"{field}.name", name)] if name in seen else []
        seen.add(name)
        keys: list[str] = driver.get("topologyKeys") or []
        for place, key in enumerate(keys):
            # Upstream names the driver.
            errors += [] if key else [required(field)]
            errors += [duplicate(field, key)] if key in keys[:place] else []
            errors += [invalid(field, key, reason) for reason in qualified_name(key)]
    return errors


def _check_node_id(text: str, field: str) -> list[FieldError]:
    if len(text.encode()) > _LONGEST_ID:
        return [invalid(field, text, f"must be {_LONGEST_ID} characters or less")]
    return [] if text else [required(field)]


def _validate_class(obj: Manifest) -> list[FieldError]:
    """Return the field errors of a class."""
    provisioner, policy, mode = (obj.get(one) for one in ("provisioner", "reclaimPolicy", "volumeBindingMode"))
    errors = [] if provisioner else [required("provisioner")]
    lower = (provisioner or "").lower()
    errors += [invalid("provisioner", lower, reason) for reason in (qualified_name(lower) if lower else ())]
    if policy and policy not in _CLASS_POLICIES:
        errors.append(not_supported("reclaimPolicy", policy, _CLASS_POLICIES))
    if mode not in _BINDING_MODES:
        errors.append(not_supported("volumeBindingMode", mode, _BINDING_MODES))
    return errors + _check_parameters(obj.get("parameters") or {}) + _check_topologies(obj)


def _check_parameters(parameters: Manifest) -> list[FieldError]:
    if len(parameters) > _MOST_PARAMETERS:
        return [too_long("parameters", _MOST_PARAMETERS)]
    errors = [invalid("parameters", "", "field can not be empty.")] if "" in parameters else []
    size = sum(len(f"{name}{value}".encode()) for name, value in parameters.items())
    return [*errors, too_long("parameters", _LARGEST_PARAMETERS)] if size > _LARGEST_PARAMETERS else errors


def _check_topologies(obj: Manifest) -> list[FieldError]:
    """Source: validation.go, validateAllowedTopologies; pkg/apis/core, ValidateTopologySelectorTerm."""
    terms: Sequence[Manifest] = obj.get("allowedTopologies") or ()
    # Upstream compares each term with as many empty ones as there are terms, and with those before.
    seen: list[dict[str, set[str]]] = [{} for _ in terms]
    errors: list[FieldError] = []
    for position, term in enumerate(terms):
        field = f"allowedTopologies[{position}].matchLabelExpressions"
        found: dict[str, set[str]] = {}
        for place, one in enumerate(term.get("matchLabelExpressions") or ()):
            path, key, values = f"{field}[{place}]", one.get("key", ""), one.get("values") or []
            errors += [] if values else [required(f"{path}.values")]
            errors += [duplicate(f"{path}.values[{at}]", value) for at, value in enumerate(values)
                       if value in values[:at]]  # fmt: skip
            errors += [invalid(f"{path}.key", key, reason) for reason in qualified_name(key)]
            errors += [duplicate(f"{path}.key", key)] if key in found else []
            found[key] = set(values)
        errors += [duplicate(field, "") for other in seen if other == found]
        seen.append(found)
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
# VolumeAttachments: what attaches them says so in their status.
ATTACHMENTS = Rules(status=lambda obj: {"attached": False})
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
