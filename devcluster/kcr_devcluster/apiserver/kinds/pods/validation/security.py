"""Validation of security contexts, of the operating system, and of the namespaces that a pod shares with its host.

Source: kubernetes/pkg/apis/core/validation/validation.go, validatePodSpecSecurityContext, ValidateSecurityContext,
validateOS, validateLinux, validateWindows and validateHostUsers.
"""

import re
from collections.abc import Iterator

from kcr_devcluster.apiserver.kinds.formats import descending_path
from kcr_devcluster.apiserver.kinds.pods.validation.windows import check_windows
from kcr_devcluster.apiserver.protocol.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kcr_devcluster.apiserver.protocol.manifests import Manifest

_LARGEST_ID = 2**31 - 1
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_PROC_MOUNTS = ("Default", "Unmasked")
# Choices of a pod's security context, in the order in which messages name them.
_CHOICES = {
    "fsGroupChangePolicy": ("Always", "OnRootMismatch"),
    "supplementalGroupsPolicy": ("Merge", "Strict"),
    "seLinuxChangePolicy": ("Recursive",),
}
_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL = re.compile(rf"^({_SEGMENT}[\./])*{_SEGMENT}$")
_NET_SYSCTLS = ("net.",)
_IPC_SYSCTLS = ("kernel.sem", "kernel.shm", "kernel.msg", "fs.mqueue.")
# The fields that a Windows pod may not set, in upstream's order: of the pod's security context, and of a container's.
_NOT_WINDOWS = (
    "appArmorProfile", "seLinuxOptions", "hostUsers", "hostPID", "hostIPC", "seccompProfile", "fsGroup",
    "fsGroupChangePolicy", "sysctls", "shareProcessNamespace", "runAsUser", "runAsGroup", "supplementalGroups",
    "supplementalGroupsPolicy", "seLinuxChangePolicy",
)  # fmt: skip
_OF_THE_SPEC = ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace")
_NOT_WINDOWS_CONTAINER = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged",
    "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup",
)  # fmt: skip


def check_pod_security(context: Manifest, spec: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of a pod's security context.

    Args:
        context: The security context.
        spec: The pod's spec.
        field: The path of the security context.
    """
    errors: list[FieldError] = []
    for name in ("fsGroup", "runAsUser", "runAsGroup"):
        errors += _check_id(context.get(name), f"{field}.{name}")
    for position, group in enumerate(context.get("supplementalGroups") or ()):
        errors += _check_id(group, f"{field}.supplementalGroups[{position}]")
    if sysctls := context.get("sysctls"):
        errors += _check_sysctls(sysctls, spec, f"{field}.sysctls")
    errors += _check_seccomp(context.get("seccompProfile"), f"{field}.seccompProfile")
    errors += _check_app_armor(context.get("appArmorProfile"), f"{field}.appArmorProfile")
    for name, supported in _CHOICES.items():
        chosen = context.get(name)
        if chosen is not None and chosen not in supported:
            errors.append(not_supported(f"{field}.{name}", chosen, supported))
    return errors + check_windows(context.get("windowsOptions") or {}, f"{field}.windowsOptions")


def check_shared_namespaces(spec: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of a pod that shares its processes with the host, or has users of its own."""
    errors: list[FieldError] = []
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        words = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{field}.securityContext.shareProcessNamespace", True, words))
    if spec.get("hostUsers") is False:
        shared = (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC"))
        errors += [forbidden(f"{field}.{shown}", "when `hostUsers` is false") for name, shown in shared
                   if spec.get(name)]  # fmt: skip
    return errors


def check_container_security(context: Manifest, spec: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of a container's security context.

    Args:
        context: The security context.
        spec: The pod's spec.
        field: The path of the security context.
    """
    errors: list[FieldError] = []
    for name in ("runAsUser", "runAsGroup"):
        errors += _check_id(context.get(name), f"{field}.{name}")
    mount = context.get("procMount")
    if mount is not None and mount not in _PROC_MOUNTS:
        errors.append(not_supported(f"{field}.procMount", mount, _PROC_MOUNTS))
    if mount == "Unmasked" and spec.get("hostUsers") is not False:
        errors.append(invalid(f"{field}.procMount", mount, "`hostUsers` must be false to use `Unmasked`"))
    errors += _check_seccomp(context.get("seccompProfile"), f"{field}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        refused = "cannot set `allowPrivilegeEscalation` to false and "
        if context.get("privileged"):
            errors.append(invalid(field, context, f"{refused}`privileged` to true"))
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            errors.append(invalid(field, context, f"{refused}`capabilities.Add` CAP_SYS_ADMIN"))
    errors += _check_app_armor(context.get("appArmorProfile"), f"{field}.appArmorProfile")
    return errors + check_windows(context.get("windowsOptions") or {}, f"{field}.windowsOptions")


def _check_id(number: int | None, field: str) -> list[FieldError]:
    if number is None or 0 <= number <= _LARGEST_ID:
        return []
    return [invalid(field, number, f"must be between 0 and {_LARGEST_ID}, inclusive")]


def _check_sysctls(sysctls: list[Manifest], spec: Manifest, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for position, sysctl in enumerate(sysctls):
        path, name = f"{field}[{position}].name", sysctl.get("name", "")
        if not name:
            errors.append(required(path))
        elif len(name) > 253 or not _SYSCTL.fullmatch(name):
            errors.append(invalid(path, name, f"must have at most 253 characters and match regex {_SYSCTL.pattern}"))
        elif name in seen:
            errors.append(duplicate(path, name))
        seen.add(name)
        dotted = name.replace("/", ".")
        for member, prefixes in (("hostNetwork", _NET_SYSCTLS), ("hostIPC", _IPC_SYSCTLS)):
            if spec.get(member) and dotted.startswith(prefixes):
                errors.append(invalid(path, name, f"may not be specified when '{member}' is true"))
    return errors


def _check_seccomp(profile: Manifest | None, field: str) -> list[FieldError]:
    if profile is None:
        return []
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    errors: list[FieldError] = []
    if not kind:
        errors.append(required(f"{field}.type", "type is required when seccompProfile is set"))
    elif kind not in _PROFILES:
        errors.append(not_supported(f"{field}.type", kind, _PROFILES))
    if kind != "Localhost":
        words = "can only be set when seccomp type is Localhost"
        return errors if local is None else [*errors, invalid(f"{field}.localhostProfile", profile, words)]
    if local is None:
        return [*errors, required(f"{field}.localhostProfile", "must be set when seccomp type is Localhost")]
    return errors + descending_path(f"{field}.localhostProfile", local)


def _check_app_armor(profile: Manifest | None, field: str) -> list[FieldError]:
    if profile is None:
        return []
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    if not kind:
        return [required(f"{field}.type", "type is required when appArmorProfile is set")]
    if kind not in _PROFILES:
        return [not_supported(f"{field}.type", kind, _PROFILES)]
    path = f"{field}.localhostProfile"
    if kind != "Localhost":
        return [] if local is None else [invalid(path, local, "can only be set when AppArmor type is Localhost")]
    if not local:
        return [required(path, "must be set when AppArmor type is Localhost")]
    return [] if local.strip() == local else [invalid(path, local, "must not be padded with whitespace")]


def check_os(os: Manifest, spec: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of the operating system, and of the fields that it does not support.

    Args:
        os: The operating system.
        spec: The pod's spec.
        field: The path of the spec.
    """
    name = os.get("name", "")
    if not name:
        return [required(f"{field}.os.name")]
    if name not in ("linux", "windows"):
        return [not_supported(f"{field}.os", name, ("linux", "windows"))]
    context = spec.get("securityContext") or {}
    holders = list(_contexts(spec, field))
    if name == "linux":
        words = "windows options cannot be set for a linux pod"
        holders.insert(0, (context, f"{field}.securityContext"))
        return [forbidden(f"{path}.windowsOptions", words) for one, path in holders if one.get("windowsOptions")]
    errors: list[FieldError] = []
    words = "cannot be set for a windows pod"
    for member in _NOT_WINDOWS:
        holder, path = (spec, field) if member in _OF_THE_SPEC else (context, f"{field}.securityContext")
        # Fields that Go holds by value count when they are true.
        if holder.get(member) is not None and (holder[member] or member not in ("hostPID", "hostIPC")):
            errors.append(forbidden(f"{path}.{member}", words))
    for one, path in holders:
        errors += [forbidden(f"{path}.{member}", words) for member in _NOT_WINDOWS_CONTAINER
                   if one.get(member) is not None]  # fmt: skip
    return errors


def _contexts(spec: Manifest, field: str) -> Iterator[tuple[Manifest, str]]:
    for kind in ("initContainers", "containers"):
        for position, container in enumerate(spec.get(kind) or ()):
            if container.get("securityContext"):
                yield container["securityContext"], f"{field}.{kind}[{position}].securityContext"
