"""Validation of the sources of volumes, those of pods and those of PersistentVolumes.

Source: kubernetes/pkg/apis/core/validation/validation.go, validateVolumeSource, ValidatePersistentVolumeSpec and the
functions that they call.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kcr_devcluster.apiserver.kinds.formats import descending_path, path_without_backsteps
from kcr_devcluster.apiserver.protocol.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import dns_label, dns_subdomain

ONCE = "may not specify more than 1 volume type"
_IQN = re.compile(r"(?:iqn\.\d{4}-\d{2}\.[^\s:]+(?::.*)?|eui\.[0-9A-Fa-f]{16}|naa\.[0-9A-Fa-f]{32})", re.DOTALL)
_IQN_STARTS = ("iqn", "eui", "naa")
_LARGEST_BYTE = 255
_SHORTEST_TOKEN, _LONGEST_TOKEN = 600, 1 << 32
_LONGEST_DRIVER, _LONGEST_TENANT = 63, 64
_HOST_PATHS = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_CACHING, _MANAGED, _DISKS = ("None", "ReadOnly", "ReadWrite"), "Managed", ("Dedicated", "Managed", "Shared")
_MANAGED_URI = (
    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
)  # fmt: skip
_BLOB_URI = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
_PAIRS = "must be a host:port pair or multiple pairs separated by commas"
_CSI_SECRETS = (
    "controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef",
)  # fmt: skip

Rule = Callable[[Manifest, str], list[FieldError]]


class Source(NamedTuple):
    """The rule of a source, and its names in messages where they are not its own.

    Attributes:
        rule: Returns the field errors of the source, given its path.
        field: Its name in the path.
        second: Its name where it is not the only one.
        is_checked: Whether it is checked by its rule even so.
    """

    rule: Rule
    field: str = ""
    second: str = ""
    is_checked: bool = False


def check_sources(volume: Manifest, field: str, sources: Mapping[str, Source]) -> list[FieldError]:
    """Return the field errors of the sources of a volume: it has one.

    Args:
        volume: The volume.
        field: Its path.
        sources: The sources that it may have, in the order of their rules.
    """
    errors, is_found = list[FieldError](), False
    for name, source in sources.items():
        if volume.get(name) is None:
            continue
        if is_found and not source.is_checked:
            errors.append(forbidden(f"{field}.{source.second or name}", ONCE))
        else:
            errors += source.rule(volume[name], f"{field}.{source.field or name}")
        is_found = True
    return errors if is_found else [required(field, "must specify a volume type")]


def needs(*names: str) -> Rule:
    """Return the rule of fields that may not be empty."""
    return lambda source, field: [required(f"{field}.{name}") for name in names if not source.get(name)]


def _check_host_path(source: Manifest, field: str) -> list[FieldError]:
    path, kind = source.get("path", ""), source.get("type") or ""
    if not path:
        return [required(f"{field}.path")]
    errors = path_without_backsteps(f"{field}.path", path)
    return errors if kind in _HOST_PATHS else [*errors, not_supported(f"{field}.type", kind, _HOST_PATHS)]


def _check_local(source: Manifest, field: str) -> list[FieldError]:
    path = source.get("path", "")
    return path_without_backsteps(f"{field}.path", path) if path else [required(f"{field}.path")]


def _check_nfs(source: Manifest, field: str) -> list[FieldError]:
    path, errors = source.get("path", ""), needs("server", "path")(source, field)
    return errors if path.startswith("/") else [*errors, invalid(f"{field}.path", path, "must be an absolute path")]


def _check_iscsi(source: Manifest, field: str) -> list[FieldError]:
    name, unit, initiator = source.get("iqn", ""), source.get("lun", 0), source.get("initiatorName")
    errors = needs("targetPortal", "iqn")(source, field)
    errors += _check_qualified(name, f"{field}.iqn") if name else []
    if not 0 <= unit <= _LARGEST_BYTE:
        errors.append(invalid(f"{field}.lun", unit, f"must be between 0 and {_LARGEST_BYTE}, inclusive"))
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        errors.append(required(f"{field}.secretRef"))
    return errors if initiator is None else errors + _check_qualified(initiator, f"{field}.initiatorname")


def _check_qualified(name: str, field: str) -> list[FieldError]:
    if not name.startswith(_IQN_STARTS):
        return [invalid(field, name, "must be valid format starting with iqn, eui, or naa")]
    return [] if _IQN.fullmatch(name) else [invalid(field, name, "must be valid format")]


def _check_persistent_iscsi(source: Manifest, field: str) -> list[FieldError]:
    words = "must be valid format"
    errors = [
        one._replace(detail=words) if one.detail.startswith(words) else one for one in _check_iscsi(source, field)
    ]
    secret = source.get("secretRef")
    return errors if secret is None else errors + needs("name")(secret, f"{field}.secretRef")


def _check_disk(name: str) -> Rule:
    """Return the rule of a disk with a name and a partition."""

    def check(source: Manifest, field: str) -> list[FieldError]:
        partition, errors = source.get("partition", 0), needs(name)(source, field)
        # Zero is the disk itself.
        if not 0 <= partition <= _LARGEST_BYTE:
            words = f"must be between 1 and {_LARGEST_BYTE}, inclusive"
            errors.append(invalid(f"{field}.partition", partition, words))
        return errors

    return check


def _check_git_repo(source: Manifest, field: str) -> list[FieldError]:
    return needs("repository")(source, field) + descending_path(f"{field}.directory", source.get("directory", ""))


def _check_flocker(source: Manifest, field: str) -> list[FieldError]:
    name, uid = source.get("datasetName", ""), source.get("datasetUUID", "")
    errors = [] if name or uid else [required(field, "one of datasetName and datasetUUID is required")]
    if name and uid:
        errors.append(invalid(field, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
    return [*errors, invalid(f"{field}.datasetName", name, "must not contain '/'")] if "/" in name else errors


def _check_cinder(source: Manifest, field: str) -> list[FieldError]:
    return needs("volumeID")(source, field) + _check_secret(source, field, "name")


def _check_persistent_cinder(source: Manifest, field: str) -> list[FieldError]:
    return needs("volumeID")(source, field) + _check_secret(source, field, "name", "namespace")


def _check_secret(source: Manifest, field: str, *names: str) -> list[FieldError]:
    secret = source.get("secretRef")
    return [] if secret is None else needs(*names)(secret, f"{field}.secretRef")


def _check_persistent_glusterfs(source: Manifest, field: str) -> list[FieldError]:
    namespace, errors = source.get("endpointsNamespace"), needs("endpoints", "path")(source, field)
    if namespace is None:
        return errors
    words = "if the endpointnamespace is set, it must be a valid namespace name"
    reasons = dns_label(namespace) if namespace else (words,)
    return errors + [invalid(f"{field}.endpointsNamespace", namespace, reason) for reason in reasons]


def _check_quobyte(source: Manifest, field: str) -> list[FieldError]:
    registry, errors = source.get("registry", ""), list[FieldError]()
    if not registry:
        errors.append(required(f"{field}.registry", _PAIRS))
    elif len(source.get("tenant", "").encode()) > _LONGEST_TENANT:
        words = f"must be a UUID and may not exceed a length of {_LONGEST_TENANT} characters"
        errors.append(required(f"{field}.tenant", words))
    else:
        pairs = registry.split(",")
        errors += [invalid(f"{field}.registry", registry, _PAIRS) for pair in pairs if not _is_pair(pair)]
    return errors + needs("volume")(source, field)


def _is_pair(text: str) -> bool:
    return re.fullmatch(r"(?:\[[^\[\]]*\]|[^\[\]:]*):[^\[\]:]*", text) is not None


def _check_fibre_channel(source: Manifest, field: str) -> list[FieldError]:
    names, identifiers, unit = source.get("targetWWNs") or [], source.get("wwids") or [], source.get("lun")
    errors: list[FieldError] = []
    if not names and not identifiers:
        errors.append(required(f"{field}.targetWWNs", "must specify either targetWWNs or wwids, but not both"))
    if names and identifiers:
        words = "targetWWNs and wwids can not be specified simultaneously"
        errors.append(invalid(f"{field}.targetWWNs", names, words))
    if names and unit is None:
        errors.append(required(f"{field}.lun", "lun is required if targetWWNs is specified"))
    elif names and unit is not None and not 0 <= unit <= _LARGEST_BYTE:
        errors.append(invalid(f"{field}.lun", unit, f"must be between 0 and {_LARGEST_BYTE}, inclusive"))
    return errors


def _check_flex(source: Manifest, field: str) -> list[FieldError]:
    words = "kubernetes.io and k8s.io namespaces are reserved"
    return needs("driver")(source, field) + [
        invalid(f"{field}.options[{key}]", key, words)
        for key in sorted(source.get("options") or ())
        if f".{key.partition('/')[0].lower()}".endswith((".kubernetes.io", ".k8s.io"))
    ]


def _check_persistent_azure_file(source: Manifest, field: str) -> list[FieldError]:
    errors = needs("secretName", "shareName")(source, field)
    return [*errors, required(f"{field}.secretNamespace")] if source.get("secretNamespace") == "" else errors


def _check_azure_disk(source: Manifest, field: str) -> list[FieldError]:
    kind, caching, uri = source.get("kind"), source.get("cachingMode"), source.get("diskURI", "")
    errors = needs("diskName", "diskURI")(source, field)
    if caching is not None and caching not in _CACHING:
        errors.append(not_supported(f"{field}.cachingMode", caching, _CACHING))
    if kind is None:
        return errors
    if kind not in _DISKS:
        errors.append(not_supported(f"{field}.kind", kind, _DISKS))
    form = _MANAGED_URI if kind == _MANAGED else _BLOB_URI
    if not uri.startswith(form.partition("{")[0]):
        errors.append(not_supported(f"{field}.diskURI", uri, (form,)))
    return errors


def _check_storageos(*of_secret: str) -> Rule:
    def check(source: Manifest, field: str) -> list[FieldError]:
        name, namespace = source.get("volumeName", ""), source.get("volumeNamespace", "")
        errors = needs("volumeName")(source, field)
        errors += [invalid(f"{field}.volumeName", name, reason) for reason in dns_label(name) if name]
        errors += [invalid(f"{field}.volumeNamespace", namespace, reason) for reason in dns_label(namespace)
                   if namespace]  # fmt: skip
        return errors + _check_secret(source, field, *of_secret)

    return check


def _check_csi(source: Manifest, field: str) -> list[FieldError]:
    errors, secret = check_driver_name(source.get("driver", ""), f"{field}.driver"), source.get("nodePublishSecretRef")
    if secret is None:
        return errors
    name = secret.get("name", "")
    if not name:
        return [*errors, required(f"{field}.nodePublishSecretRef.name")]
    return errors + [invalid(f"{field}.name", name, reason) for reason in dns_subdomain(name)]


def _check_persistent_csi(source: Manifest, field: str) -> list[FieldError]:
    errors = check_driver_name(source.get("driver", ""), f"{field}.driver") + needs("volumeHandle")(source, field)
    for member in _CSI_SECRETS:
        if (secret := source.get(member)) is not None:
            for part, rule in (("name", dns_subdomain), ("namespace", dns_label)):
                path, text = f"{field}.{member}.{part}", secret.get(part, "")
                errors += [invalid(path, text, reason) for reason in rule(text)] if text else [required(path)]
    return errors


def check_driver_name(name: str, field: str) -> list[FieldError]:
    """Return the field errors of the name of a CSI driver."""
    if not name:
        return [required(field)]
    errors = [too_long(field, _LONGEST_DRIVER)] if len(name) > _LONGEST_DRIVER else []
    return errors + [invalid(field, name, reason) for reason in dns_subdomain(name.lower())]


def check_token_seconds(seconds: int, field: str) -> list[FieldError]:
    """Return the field errors of how long a token of a ServiceAccount is valid."""
    errors: list[FieldError] = []
    if seconds < _SHORTEST_TOKEN:
        errors.append(invalid(field, seconds, "may not specify a duration less than 10 minutes"))
    if seconds > _LONGEST_TOKEN:
        errors.append(invalid(field, seconds, "may not specify a duration larger than 2^32 seconds"))
    return errors


_SCALE_IO = Source(needs("gateway", "system", "volumeName"))
_AWS, _CEPH_MONITORS = Source(_check_disk("volumeID")), Source(needs("monitors"), second="cephFS")
_GCE = Source(_check_disk("pdName"), field="persistentDisk")
_RBD, _FLEX = Source(needs("monitors", "image")), Source(_check_flex)
_SIMPLE: Mapping[str, Source] = {
    "vsphereVolume": Source(needs("volumePath")), "photonPersistentDisk": Source(needs("pdID")),
    "portworxVolume": Source(needs("volumeID")), "azureDisk": Source(_check_azure_disk),
}  # fmt: skip
# The sources of volumes of pods in the order of their rules, but for those that only pods have.
EARLY: Mapping[str, Source] = {
    "hostPath": Source(_check_host_path), "gitRepo": Source(_check_git_repo), "gcePersistentDisk": _GCE,
    "awsElasticBlockStore": _AWS,
}  # fmt: skip
SHARED: Mapping[str, Source] = {
    "nfs": Source(_check_nfs), "iscsi": Source(_check_iscsi), "glusterfs": Source(needs("endpoints", "path")),
    "flocker": Source(_check_flocker), "persistentVolumeClaim": Source(needs("claimName")), "rbd": _RBD,
    "cinder": Source(_check_cinder), "cephfs": _CEPH_MONITORS, "quobyte": Source(_check_quobyte),
}  # fmt: skip
FIBRE: Mapping[str, Source] = {"fc": Source(_check_fibre_channel), "flexVolume": _FLEX}
LATE: Mapping[str, Source] = {
    "azureFile": Source(needs("secretName", "shareName")), **_SIMPLE, "storageos": Source(_check_storageos("name")),
}  # fmt: skip
LAST: Mapping[str, Source] = {"scaleIO": _SCALE_IO, "csi": Source(_check_csi)}
PERSISTENT: Mapping[str, Source] = {
    "hostPath": EARLY["hostPath"], "gcePersistentDisk": _GCE, "awsElasticBlockStore": _AWS,
    "glusterfs": Source(_check_persistent_glusterfs), "flocker": SHARED["flocker"], "nfs": SHARED["nfs"], "rbd": _RBD,
    "quobyte": SHARED["quobyte"], "cephfs": _CEPH_MONITORS, "iscsi": Source(_check_persistent_iscsi),
    "cinder": Source(_check_persistent_cinder), "fc": FIBRE["fc"],
    "flexVolume": Source(_check_flex, is_checked=True),
    "azureFile": Source(_check_persistent_azure_file), **_SIMPLE, "scaleIO": _SCALE_IO, "local": Source(_check_local),
    "storageos": Source(_check_storageos("name", "namespace")), "csi": Source(_check_persistent_csi),
}  # fmt: skip
