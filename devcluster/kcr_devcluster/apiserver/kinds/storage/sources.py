"""Validation of sources that volumes of pods and PersistentVolumes have in common, and defaults that have conditions.

Source: kubernetes/pkg/apis/core/validation/validation.go, validateNFSVolumeSource, validateISCSIVolumeSource,
validateGCEPersistentDiskVolumeSource and ValidateCSIDriverName.
"""

import re

from kcr_devcluster.apiserver.protocol.field_errors import FieldError, invalid, required, too_long
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import dns_subdomain

_IQN = re.compile(r"(?:iqn\.\d{4}-\d{2}\.[^\s:]+(?::.*)?|eui\.[0-9A-Fa-f]{16}|naa\.[0-9A-Fa-f]{32})", re.DOTALL)
_IQN_MESSAGE = "must be valid format starting with iqn, eui, or naa"
_LARGEST_BYTE = 255
_LONGEST_DRIVER = 63


def check_nfs(source: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of a directory of an NFS server."""
    path = source.get("path", "")
    errors = [required(f"{field}.{name}") for name in ("server", "path") if not source.get(name)]
    return errors if path.startswith("/") else [*errors, invalid(f"{field}.path", path, "must be an absolute path")]


def check_iscsi(source: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of a disk behind iSCSI."""
    name, unit = source.get("iqn", ""), source.get("lun", 0)
    errors = [] if source.get("targetPortal") else [required(f"{field}.targetPortal")]
    if not name:
        errors.append(required(f"{field}.iqn"))
    elif not _IQN.fullmatch(name):
        errors.append(invalid(f"{field}.iqn", name, _IQN_MESSAGE))
    if not 0 <= unit <= _LARGEST_BYTE:
        errors.append(invalid(f"{field}.lun", unit, f"must be between 0 and {_LARGEST_BYTE}, inclusive"))
    return errors


def check_gce_disk(source: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of a disk of Google's cloud, which upstream calls `persistentDisk`."""
    field = f"{field.rpartition('.')[0]}.persistentDisk"
    partition = source.get("partition", 0)
    errors = [] if source.get("pdName") else [required(f"{field}.pdName")]
    # Zero is the disk itself.
    if not 0 <= partition <= _LARGEST_BYTE:
        words = f"must be between 1 and {_LARGEST_BYTE}, inclusive"
        errors.append(invalid(f"{field}.partition", partition, words))
    return errors


def check_csi(source: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of a volume of a CSI driver."""
    return check_driver_name(source.get("driver", ""), f"{field}.driver")


def check_driver_name(name: str, field: str) -> list[FieldError]:
    """Return the field errors of the name of a CSI driver."""
    if not name:
        return [required(field)]
    errors = [too_long(field, _LONGEST_DRIVER)] if len(name) > _LONGEST_DRIVER else []
    return errors + [invalid(field, name, reason) for reason in dns_subdomain(name.lower())]
