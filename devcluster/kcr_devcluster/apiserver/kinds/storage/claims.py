"""The strategy of PersistentVolumeClaims.

Source: kubernetes/pkg/apis/core/validation/validation.go, ValidatePersistentVolumeClaimSpec and
ValidatePersistentVolumeClaimUpdate; pkg/registry/core/persistentvolumeclaim/strategy.go.
"""

from kcr_devcluster.apiserver.kinds.generic import Conform, Rules
from kcr_devcluster.apiserver.protocol.field_errors import (
    IMMUTABLE,
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kcr_devcluster.apiserver.protocol.manifests import Manifest, semantic_equal
from kcr_devcluster.apiserver.protocol.names import check_selector, dns_subdomain
from kcr_devcluster.apiserver.schema.go_values import difference
from kcr_devcluster.apiserver.schema.quantities import amount

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")
_FIXED = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"


def check_modes(modes: list[str], field: str, none: str) -> list[FieldError]:
    """Return the field errors of access modes.

    Args:
        modes: The modes.
        field: Their path.
        none: The detail of the error of no modes at all.
    """
    errors = [] if modes else [required(field, none)]
    errors += [not_supported(field, mode, _ACCESS_MODES) for mode in modes if mode not in _ACCESS_MODES]
    if "ReadWriteOncePod" in modes and set(modes) & set(_ACCESS_MODES[:3]):
        errors.append(forbidden(field, "may not use ReadWriteOncePod with other access modes"))
    return errors


def check_claim_spec(spec: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of the spec of a claim, or of the template of one."""
    modes: list[str] = spec.get("accessModes") or []
    errors = check_modes(modes, f"{field}.accessModes", "at least 1 access mode is required")
    errors += check_selector(spec.get("selector") or {}, f"{field}.selector")
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if storage is None:
        errors.append(required(f"{field}.resources[storage]"))
    elif amount(storage) <= 0:
        errors.append(invalid(f"{field}.resources[storage]", storage, "must be greater than zero"))
    if name := spec.get("storageClassName"):
        errors += [invalid(f"{field}.storageClassName", name, reason) for reason in dns_subdomain(name)]
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        errors.append(not_supported(f"{field}.volumeMode", mode, VOLUME_MODES))
    return errors


def _default_claim(obj: Manifest, conform: Conform) -> None:
    """Name the source of the data in both fields that there are for it.

    Source: kubernetes/pkg/registry/core/persistentvolumeclaim/strategy.go, NormalizeDataSources.
    """
    conform(obj)
    spec = obj["spec"]
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source and not reference:
        spec["dataSourceRef"] = dict(source)
    elif reference and not source and not reference.get("namespace"):
        spec["dataSource"] = dict(reference)


def _validate_claim(obj: Manifest) -> list[FieldError]:
    """Return the field errors of a claim."""
    return check_claim_spec(obj.get("spec") or {}, "spec")


def _validate_update_claim(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return the field errors of an update: the volume is set once, and requests of bound claims may grow."""
    after, before = dict(new["spec"]), dict(old["spec"])
    if not before.get("volumeName"):
        before["volumeName"] = after.get("volumeName")
    if (new.get("status") or {}).get("phase") == "Bound":
        resources = after.get("resources") or {}
        if requests := resources.get("requests"):
            after["resources"] = {**resources, "requests": {**requests, "storage": _requested(before)}}
        after["volumeAttributesClassName"] = before.get("volumeAttributesClassName")
    errors = _validate_claim(new)
    if not semantic_equal(after, before):
        changes = difference("core.v1.PersistentVolumeClaimSpec", before, after)
        errors.append(forbidden("spec", f"{_FIXED}\n{changes}"))
    capacity = ((old.get("status") or {}).get("capacity") or {}).get("storage", "0")
    wanted = _requested(new["spec"])
    if amount(wanted) < amount(_requested(old["spec"])) and amount(wanted) <= amount(capacity):
        errors.append(forbidden("spec.resources.requests.storage", "field can not be less than status.capacity"))
    if new["spec"].get("volumeMode") != old["spec"].get("volumeMode"):
        errors.append(invalid("volumeMode", new["spec"].get("volumeMode"), IMMUTABLE))
    return errors


def _requested(spec: Manifest) -> str:
    found: str = ((spec.get("resources") or {}).get("requests") or {}).get("storage", "0")
    return found


# Claims of volumes: nothing here provisions or binds them, which a warning says.
CLAIMS = Rules(
    default=_default_claim,
    status=lambda _: {"phase": "Pending"},
    validate=_validate_claim,
    validate_update=_validate_update_claim,
)
