"""Validation of volumes, and of their mounts in containers.

Source: kubernetes/pkg/apis/core/validation/validation.go, ValidateVolumes, ValidateVolumeMounts and
ValidateVolumeDevices.
"""

from collections.abc import Iterator, Mapping, Sequence

from kcr_devcluster.apiserver.kinds.formats import descending_path, file_mode, path_without_backsteps
from kcr_devcluster.apiserver.kinds.pods.validation.environment import check_field_ref, check_resource_ref
from kcr_devcluster.apiserver.kinds.storage.claims import check_claim_spec
from kcr_devcluster.apiserver.kinds.storage.sources import (
    EARLY,
    FIBRE,
    LAST,
    LATE,
    ONCE,
    SHARED,
    Rule,
    Source,
    check_sources,
    check_token_seconds,
)
from kcr_devcluster.apiserver.protocol.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    one_of,
    required,
)
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import dns_label
from kcr_devcluster.apiserver.schema.quantities import amount

_VOLUME_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_LONGEST_PORTAL = 64
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")


def check_volumes(volumes: Sequence[Manifest], field: str) -> tuple[dict[str, Manifest], list[FieldError]]:
    """Return the volumes without errors by name, and the errors of the others."""
    named: dict[str, Manifest] = {}
    errors: list[FieldError] = []
    for position, volume in enumerate(volumes):
        path, name = f"{field}[{position}]", volume.get("name", "")
        wrong = check_sources(volume, path, _SOURCES)
        if (iscsi := volume.get("iscsi")) and iscsi.get("initiatorName") is not None:
            wrong += _check_portal(iscsi, name, f"{path}.name")
        wrong += [invalid(f"{path}.name", name, reason) for reason in dns_label(name)] if name else []
        if not name:
            wrong.append(required(f"{path}.name"))
        if name in named:
            wrong.append(duplicate(f"{path}.name", name))
        if not wrong:
            named[name] = volume
        errors += wrong
    return named, errors


def _check_portal(source: Manifest, name: str, field: str) -> list[FieldError]:
    words = (
        "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is "
        "specified."
    )
    return [invalid(field, name, words)] if len(f"{name}:{source.get('targetPortal', '')}") > _LONGEST_PORTAL else []


def _check_empty_dir(source: Manifest, field: str) -> list[FieldError]:
    limit = source.get("sizeLimit")
    if limit is None or amount(limit) >= 0:
        return []
    return [forbidden(f"{field}.sizeLimit", "SizeLimit field must be a valid resource quantity")]


def _check_ephemeral(source: Manifest, field: str) -> list[FieldError]:
    template = source.get("volumeClaimTemplate")
    if template is None:
        return [required(f"{field}.volumeClaimTemplate")]
    return check_claim_spec(template.get("spec") or {}, f"{field}.volumeClaimTemplate.spec")


def _check_image(source: Manifest, field: str) -> list[FieldError]:
    return one_of(f"{field}.pullPolicy", source.get("pullPolicy", ""), _PULL_POLICIES)


def _check_keyed(needed: str) -> Rule:
    def check(source: Manifest, field: str) -> list[FieldError]:
        errors = [] if source.get(needed) else [required(f"{field}.{needed}")]
        errors += file_mode(f"{field}.defaultMode", source.get("defaultMode"))
        for position, item in enumerate(source.get("items") or ()):
            errors += _check_item(item, f"{field}.items[{position}]")
        return errors

    return check


def _check_item(item: Manifest, field: str) -> list[FieldError]:
    errors = [] if item.get("key") else [required(f"{field}.key")]
    path = item.get("path", "")
    errors += _check_file_path(f"{field}.path", path) if path else [required(f"{field}.path")]
    return errors + file_mode(f"{field}.mode", item.get("mode"))


def _check_file_path(field: str, path: str) -> list[FieldError]:
    errors = descending_path(field, path)
    if path.startswith("..") and not path.startswith("../"):
        errors.append(invalid(field, path, "must not start with '..'"))
    return errors


def _check_downward(source: Manifest, field: str) -> list[FieldError]:
    errors = file_mode(f"{field}.defaultMode", source.get("defaultMode"))
    for item in source.get("items") or ():
        # Upstream does not say which item it is.
        errors += _check_downward_file(item, field)
    return errors


def _check_downward_file(item: Manifest, field: str) -> list[FieldError]:
    path, of_pod, of_container = item.get("path", ""), item.get("fieldRef"), item.get("resourceFieldRef")
    errors = _check_file_path(f"{field}.path", path) if path else [required(f"{field}.path")]
    if of_pod is not None:
        errors += check_field_ref(of_pod, _VOLUME_FIELDS, f"{field}.fieldRef")
        if of_container is not None:
            words = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(invalid(field, "resource", words))
    elif of_container is not None:
        errors += check_resource_ref(of_container, f"{field}.resourceFieldRef", of_volume=True)
    else:
        errors.append(required(field, "one of fieldRef and resourceFieldRef is required"))
    return errors + file_mode(f"{field}.mode", item.get("mode"))


def _check_projected(source: Manifest, field: str) -> list[FieldError]:
    errors = file_mode(f"{field}.defaultMode", source.get("defaultMode"))
    files: set[str] = set()
    for position, projection in enumerate(source.get("sources") or ()):
        path = f"{field}.sources[{position}]"
        for file, shown in _projected_files(projection):
            if file in files:
                errors.append(invalid(field, shown, "conflicting duplicate paths"))
            files.add(file)
        given = [name for name, value in projection.items() if value is not None]
        errors += [forbidden(path, f"{ONCE} per source")] * (len(given) > 1)
        for name in given:
            if rule := _PROJECTIONS.get(name):
                errors += rule(projection[name] or {}, f"{path}.{name}")
            if name == "serviceAccountToken":
                # Upstream names the volume.
                file = (projection[name] or {}).get("path", "")
                errors += _check_file_path(f"{field}.path", file) if file else [required(f"{field}.path")]
    return errors


def _projected_files(projection: Manifest) -> Iterator[tuple[str, str]]:
    """Yield the paths that a source names, each with the name that messages show for it."""
    for kind in ("secret", "configMap"):
        named = projection.get(kind) or {}
        yield from ((item["path"], named.get("name", "")) for item in named.get("items") or () if item.get("path"))
    for item in (projection.get("downwardAPI") or {}).get("items") or ():
        if path := item.get("path"):
            yield path, path
    if path := (projection.get("serviceAccountToken") or {}).get("path"):
        yield path, path


def _check_token(source: Manifest, field: str) -> list[FieldError]:
    seconds = source.get("expirationSeconds")
    return [] if seconds is None else check_token_seconds(seconds, f"{field}.expirationSeconds")


_PROJECTIONS: Mapping[str, Rule] = {
    "configMap": _check_keyed("name"),
    "secret": _check_keyed("name"),
    "downwardAPI": _check_downward,
    "serviceAccountToken": _check_token,
}
# Upstream misspells one of them.
_SOURCES: Mapping[str, Source] = {
    "emptyDir": Source(_check_empty_dir), **EARLY, "secret": Source(_check_keyed("secretName")), **SHARED,
    "downwardAPI": Source(_check_downward, second="downwarAPI"), **FIBRE, "configMap": Source(_check_keyed("name")),
    **LATE, "projected": Source(_check_projected), **LAST, "ephemeral": Source(_check_ephemeral),
    "image": Source(_check_image),
}  # fmt: skip


def check_mounts(container: Manifest, volumes: Mapping[str, Manifest], field: str) -> list[FieldError]:
    """Return the field errors of the volume mounts of a container.

    Args:
        container: The container.
        volumes: The pod's volumes by name.
        field: The path of the mounts.
    """
    errors: list[FieldError] = []
    paths: set[str] = set()
    devices = {one.get("name", ""): one.get("devicePath", "") for one in container.get("volumeDevices") or ()}
    for position, mount in enumerate(container.get("volumeMounts") or ()):
        path, name, where = f"{field}[{position}]", mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(required(f"{path}.name"))
        if name not in volumes:
            errors.append(not_found(f"{path}.name", name))
        if not where:
            errors.append(required(f"{path}.mountPath"))
        if where in paths:
            errors.append(invalid(f"{path}.mountPath", where, "must be unique"))
        paths.add(where)
        if name in devices:
            errors.append(invalid(f"{path}.name", name, "must not already exist in volumeDevices"))
        if where in devices.values():
            errors.append(invalid(f"{path}.mountPath", where, "must not already exist as a path in volumeDevices"))
        errors += _check_mount_options(mount, container, field, path)
    return errors


def _check_mount_options(mount: Manifest, container: Manifest, field: str, path: str) -> list[FieldError]:
    """Check the options that most mounts lack; as in upstream, most field paths lack the index of the mount.

    Args:
        mount: The mount.
        container: Its container.
        field: The path of the mounts.
        path: The path of this one.
    """
    errors: list[FieldError] = []
    below, expression, propagation = mount.get("subPath"), mount.get("subPathExpr"), mount.get("mountPropagation")
    if below:
        errors += descending_path(f"{field}.subPath", below)
    if expression:
        if below:
            words = "subPathExpr and subPath are mutually exclusive"
            errors.append(invalid(f"{path}.subPathExpr", expression, words))
        errors += descending_path(f"{field}.subPathExpr", expression)
    if propagation is not None and propagation not in _PROPAGATIONS:
        errors.append(not_supported(f"{field}.mountPropagation", propagation, _PROPAGATIONS))
    if propagation == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        words = "Bidirectional mount propagation is available only to privileged containers"
        errors.append(forbidden(f"{field}.mountPropagation", words))
    if (recursive := mount.get("recursiveReadOnly")) is not None:
        errors += _check_recursive(recursive, mount, f"{field}.recursiveReadOnly")
    return errors


def _check_recursive(recursive: str, mount: Manifest, field: str) -> list[FieldError]:
    if recursive not in _RECURSIVE:
        return [not_supported(field, recursive, _RECURSIVE)]
    if recursive == "Disabled":
        return []
    errors = [] if mount.get("readOnly") else [forbidden(field, "may only be specified when readOnly is true")]
    if mount.get("mountPropagation") not in (None, "None"):
        errors.append(forbidden(field, "may only be specified when mountPropagation is None or not specified"))
    return errors


def check_devices(container: Manifest, volumes: Mapping[str, Manifest], field: str) -> list[FieldError]:
    """Return the field errors of the block devices of a container.

    Args:
        container: The container.
        volumes: The pod's volumes by name.
        field: The path of the devices.
    """
    errors: list[FieldError] = []
    names: set[str] = set()
    paths: set[str] = set()
    mounts = {one.get("name", ""): one.get("mountPath", "") for one in container.get("volumeMounts") or ()}
    for position, device in enumerate(container.get("volumeDevices") or ()):
        path, name, where = f"{field}[{position}]", device.get("name", ""), device.get("devicePath", "")
        volume = volumes.get(name)
        if not name:
            errors.append(required(f"{path}.name"))
        if name in names:
            errors.append(invalid(f"{path}.name", name, "must be unique"))
        if volume is None:
            errors.append(not_found(f"{path}.name", name))
        elif not volume.keys() & {"persistentVolumeClaim", "ephemeral"}:
            words = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(invalid(f"{path}.name", name, words))
        errors += [] if where else [required(f"{path}.devicePath")]
        errors += [invalid(f"{path}.devicePath", where, "must be unique")] if where in paths else []
        if path_without_backsteps("", where):
            errors.append(invalid(f"{path}.devicePath", where, "can not contain backsteps ('..')"))
        else:
            paths.add(where)
        if name in mounts:
            errors.append(invalid(f"{path}.name", name, "must not already exist in volumeMounts"))
        if where in mounts.values():
            errors.append(invalid(f"{path}.devicePath", where, "must not already exist as a path in volumeMounts"))
        names |= {name} - {""}
    return errors
