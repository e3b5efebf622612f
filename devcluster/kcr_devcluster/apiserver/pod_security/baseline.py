"""The checks of the level `baseline`, which prevents known escalations of privileges.

Source: k8s.io/pod-security-admission/policy/check_*.go, those with LevelBaseline.
"""

from functools import partial

from kcr_devcluster.apiserver.pod_security.checks import (
    VersionedCheck,
    Violation,
    containers,
    in_user_namespace,
    named,
    plural,
    quoted,
    setters,
)
from kcr_devcluster.apiserver.protocol.field_errors import rendered
from kcr_devcluster.apiserver.protocol.manifests import Manifest

_CAPABILITIES = frozenset({
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
    "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
})  # fmt: skip
_SYSCTLS = frozenset({
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
})  # fmt: skip
_SYSCTLS_27 = _SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29 = _SYSCTLS_27 | {
    "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}  # fmt: skip
_SYSCTLS_32 = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
_SYSCTLS_37 = _SYSCTLS_32 | {"net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat"}
_SELINUX_TYPES = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
SECCOMP_TYPES = ("Localhost", "RuntimeDefault")
_APPARMOR_PREFIX = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("httpGet", "tcpSocket")


def _pod_context(spec: Manifest) -> Manifest:
    found: Manifest = spec.get("securityContext") or {}
    return found


def _app_armor(metadata: Manifest, spec: Manifest) -> Violation | None:
    kind = (_pod_context(spec).get("appArmorProfile") or {}).get("type", "RuntimeDefault")
    bad = {} if kind in SECCOMP_TYPES else {"": kind}
    for name, _, context in containers(spec):
        kind = (context.get("appArmorProfile") or {}).get("type", "RuntimeDefault")
        if kind not in SECCOMP_TYPES:
            bad[name] = kind
    annotations = sorted(
        f"{key}={rendered(value)}"
        for key, value in (metadata.get("annotations") or {}).items()
        if key.startswith(_APPARMOR_PREFIX) and value not in ("", "runtime/default") and value[:10] != "localhost/"
    )
    if not bad and not annotations:
        return None
    where = setters("" in bad, [name for name in bad if name])
    by = " and ".join(([where] if where else []) + ([plural("annotation", len(annotations))] if annotations else []))
    values = [*sorted(set(bad.values())), *annotations]
    reason = plural("forbidden AppArmor profile", len(values))
    return Violation(reason, f"{by} must not set AppArmor profile type to {quoted(values)}")


def _capabilities(metadata: Manifest, spec: Manifest) -> Violation | None:
    bad: list[str] = []
    added: set[str] = set()
    for name, _, context in containers(spec):
        more = set((context.get("capabilities") or {}).get("add") or ()) - _CAPABILITIES
        if more:
            bad.append(name)
            added |= more
    if not bad:
        return None
    words = f"{named(bad)} must not include {quoted(sorted(added))} in securityContext.capabilities.add"
    return Violation("non-default capabilities", words)


def _host_namespaces(metadata: Manifest, spec: Manifest) -> Violation | None:
    found = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    return Violation("host namespaces", ", ".join(found)) if found else None


def _host_path_volumes(metadata: Manifest, spec: Manifest) -> Violation | None:
    found = [one.get("name", "") for one in spec.get("volumes") or () if one.get("hostPath") is not None]
    return Violation("hostPath volumes", f"{plural('volume', len(found))} {quoted(found)}") if found else None


def _host_ports(metadata: Manifest, spec: Manifest) -> Violation | None:
    bad: list[str] = []
    ports: set[str] = set()
    for name, container, _ in containers(spec):
        found = {str(one["hostPort"]) for one in container.get("ports") or () if one.get("hostPort")}
        if found:
            bad.append(name)
            ports |= found
    if not bad:
        return None
    uses = "uses" if len(bad) == 1 else "use"
    return Violation("hostPort", f"{named(bad)} {uses} {plural('hostPort', len(ports))} {', '.join(sorted(ports))}")


def _hosts(metadata: Manifest, spec: Manifest) -> Violation | None:
    """Check the hosts that probes and lifecycle handlers connect to."""
    bad: set[str] = set()
    hosts: set[str] = set()
    for name, container, _ in containers(spec):
        lifecycle = container.get("lifecycle") or {}
        actions = [container.get(one) for one in _PROBES] + [lifecycle.get(one) for one in ("postStart", "preStop")]
        found = {((action or {}).get(one) or {}).get("host", "") for action in actions for one in _HANDLERS} - {""}
        if found:
            bad.add(name)
            hosts |= found
    if not bad:
        return None
    uses = "uses" if len(bad) == 1 else "use"
    many = plural("probe or lifecycle host", len(hosts))
    return Violation("probe or lifecycle host", f"{named(sorted(bad))} {uses} {many} {quoted(sorted(hosts))}")


def _privileged(metadata: Manifest, spec: Manifest) -> Violation | None:
    bad = [name for name, _, context in containers(spec) if context.get("privileged")]
    return Violation("privileged", f"{named(bad)} must not set securityContext.privileged=true") if bad else None


def proc_mount(metadata: Manifest, spec: Manifest) -> Violation | None:
    """Check that no container sees more of /proc than usual."""
    bad = {
        name: kind
        for name, _, context in containers(spec)
        if (kind := context.get("procMount", "Default")) != "Default"
    }
    if not bad:
        return None
    kinds = quoted(sorted(set(bad.values())))
    return Violation("procMount", f"{named(list(bad))} must not set securityContext.procMount to {kinds}")


def _proc_mount_35(metadata: Manifest, spec: Manifest) -> Violation | None:
    return None if in_user_namespace(spec) else proc_mount(metadata, spec)


def _selinux(types: frozenset[str], metadata: Manifest, spec: Manifest) -> Violation | None:
    options = {"": _pod_context(spec).get("seLinuxOptions") or {}}
    options |= {name: context.get("seLinuxOptions") or {} for name, _, context in containers(spec)}
    bad = {
        name: one for name, one in options.items()
        if one.get("type", "") not in types or one.get("user") or one.get("role")
    }  # fmt: skip
    if not bad:
        return None
    kinds = sorted({one.get("type", "") for one in bad.values()} - types)
    data = [f"{plural('type', len(kinds))} {quoted(kinds)}"] if kinds else []
    data += [f"{name} may not be set" for name in ("user", "role") if any(one.get(name) for one in bad.values())]
    where = setters("" in bad, [name for name in bad if name])
    return Violation("seLinuxOptions", f"{where} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}")


def _seccomp_annotations(metadata: Manifest, spec: Manifest) -> Violation | None:
    annotations = metadata.get("annotations") or {}
    keys = [_SECCOMP_POD, *(f"{_SECCOMP_CONTAINER}{name}" for name, _, _ in containers(spec))]
    allowed = ("runtime/default", "docker/default")
    found = sorted({
        f"{key}={rendered(annotations[key])}" for key in keys
        if key in annotations and annotations[key] not in allowed and not annotations[key].startswith("localhost/")
    })  # fmt: skip
    if not found:
        return None
    return Violation("seccompProfile", f"forbidden {plural('annotation', len(found))} {', '.join(found)}")


def seccomp(metadata: Manifest, spec: Manifest) -> Violation | None:
    """Check that no profile of system calls is switched off."""
    profiles = {"": _pod_context(spec).get("seccompProfile")}
    profiles |= {name: context.get("seccompProfile") for name, _, context in containers(spec)}
    bad = {
        name: one.get("type", "") for name, one in profiles.items()
        if one is not None and one.get("type") not in SECCOMP_TYPES
    }  # fmt: skip
    if not bad:
        return None
    where, kinds = setters("" in bad, [name for name in bad if name]), quoted(sorted(set(bad.values())))
    return Violation("seccompProfile", f"{where} must not set securityContext.seccompProfile.type to {kinds}")


def _sysctls(allowed: frozenset[str], metadata: Manifest, spec: Manifest) -> Violation | None:
    given = [one.get("name", "") for one in _pod_context(spec).get("sysctls") or ()]
    found = [name for name in given if name not in allowed]
    return Violation("forbidden sysctls", ", ".join(found)) if found else None


def _windows_host_process(metadata: Manifest, spec: Manifest) -> Violation | None:
    pod = bool((_pod_context(spec).get("windowsOptions") or {}).get("hostProcess"))
    bad = [name for name, _, context in containers(spec) if (context.get("windowsOptions") or {}).get("hostProcess")]
    if not pod and not bad:
        return None
    return Violation("hostProcess", f"{setters(pod, bad)} must not set securityContext.windowsOptions.hostProcess=true")


BASELINE: tuple[VersionedCheck, ...] = (
    VersionedCheck("appArmorProfile", 0, _app_armor),
    VersionedCheck("capabilities_baseline", 0, _capabilities),
    VersionedCheck("hostNamespaces", 0, _host_namespaces),
    VersionedCheck("hostPathVolumes", 0, _host_path_volumes),
    VersionedCheck("hostPorts", 0, _host_ports),
    VersionedCheck("hostProbesAndHostLifecycle", 34, _hosts),
    VersionedCheck("privileged", 0, _privileged),
    VersionedCheck("procMount", 0, proc_mount),
    VersionedCheck("procMount", 35, _proc_mount_35),
    VersionedCheck("seLinuxOptions", 0, partial(_selinux, _SELINUX_TYPES)),
    VersionedCheck("seLinuxOptions", 31, partial(_selinux, _SELINUX_TYPES | {"container_engine_t"})),
    VersionedCheck("seccompProfile_baseline", 0, _seccomp_annotations),
    VersionedCheck("seccompProfile_baseline", 19, seccomp),
    VersionedCheck("sysctls", 0, partial(_sysctls, _SYSCTLS)),
    VersionedCheck("sysctls", 27, partial(_sysctls, _SYSCTLS_27)),
    VersionedCheck("sysctls", 29, partial(_sysctls, _SYSCTLS_29)),
    VersionedCheck("sysctls", 32, partial(_sysctls, _SYSCTLS_32)),
    # CHANGELOG-1.37, #138389.
    VersionedCheck("sysctls", 37, partial(_sysctls, _SYSCTLS_37)),
    VersionedCheck("windowsHostProcess", 0, _windows_host_process),
)
