"""The strategy of PersistentVolumeClaims.

Source: kubernetes/pkg/apis/core/validation/validation.go, ValidatePersistentVolumeClaimSpec and
ValidatePersistentVolumeClaimUpdate; pkg/registry/core/persistentvolumeclaim/strategy.go.
"""

import msgspec

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
from kcr_devcluster.apiserver.protocol.names import check_selector, dns_label, dns_subdomain
from kcr_devcluster.apiserver.schema.go_values import difference
from kcr_devcluster.apiserver.schema.quantities import amount

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_CLAIM, _REFERENCE = "PersistentVolumeClaim", ("apiGroup", "kind", "name")
# What the older of the two fields for the source of the data may name; anything else is dropped.
_OLD_SOURCES = (("", _CLAIM), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
VOLUME_MODES = ("Block", "Filesystem")
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
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
    errors += _check_data_sources(spec, field)
    name = spec.get("volumeAttributesClassName")
    reasons = dns_subdomain(name) if name else ()
    return errors + [invalid(f"{field}.volumeAttributesClassName", name, reason) for reason in reasons]


def _check_data_sources(spec: Manifest, field: str) -> list[FieldError]:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    errors = [] if source is None else _check_source(source, f"{field}.dataSource")
    if reference is None:
        return errors
    errors += _check_source(reference, f"{field}.dataSourceRef")
    if namespace := reference.get("namespace"):
        errors += [invalid(f"{field}.dataSourceRef.namespace", namespace, reason) for reason in dns_label(namespace)]
    if source is None:
        return errors
    if namespace:
        words = "may not be specified when dataSourceRef.namespace is specified"
    elif all(source.get(member) == reference.get(member) for member in _REFERENCE):
        return errors
    else:
        words = "must match dataSourceRef"
    # Upstream shows the path of the field, which has no JSON.
    return [*errors, invalid(field, msgspec.Raw(b"{}"), words)]


def _check_source(source: Manifest, field: str) -> list[FieldError]:
    group, kind = source.get("apiGroup") or "", source.get("kind", "")
    errors = [required(f"{field}.{member}") for member in ("name", "kind") if not source.get(member)]
    if not group and kind != _CLAIM:
        errors.append(invalid(field, kind, f"must be '{_CLAIM}' when referencing the default apiGroup"))
    return errors + [invalid(f"{field}.apiGroup", group, reason) for reason in (dns_subdomain(group) if group else ())]


def _default_claim(obj: Manifest, conform: Conform) -> None:
    """Name the source of the data in both fields that there are for it.

    Source: kubernetes/pkg/registry/core/persistentvolumeclaim/strategy.go, NormalizeDataSources.
    """
    conform(obj)
    spec = obj["spec"]
    if (spec.get("dataSourceRef") or {}).get("namespace"):
        # The field of a feature that is off, CrossNamespaceVolumeDataSource.
        del spec["dataSourceRef"]
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        if (source.get("apiGroup") or "", source.get("kind")) in _OLD_SOURCES:
            spec["dataSourceRef"] = dict(source)
        else:
            del spec["dataSource"]
    elif reference is not None and source is None:
        spec["dataSource"] = dict(reference)


def _validate_claim(obj: Manifest) -> list[FieldError]:
    """Return the field errors of a claim."""
    return check_claim_spec(obj.get("spec") or {}, "spec")


def _validate_update_claim(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return the field errors of an update: the volume is set once, and requests of bound claims may grow."""
    after, before = dict(new["spec"]), dict(old["spec"])
    if not before.get("volumeName"):
        before["volumeName"] = after.get("volumeName")
    annotated = (old["metadata"].get("annotations") or {}).get(_BETA_CLASS)
    if "storageClassName" not in before and annotated in (None, after.get("storageClassName")):
        # A class that becomes the default is written into older claims.
        before["storageClassName"] = after.get("storageClassName")
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
