"""The checks of the level `restricted`, the best practice for pods, beside those of `baseline`.

Source: k8s.io/pod-security-admission/policy/check_*.go, those with LevelRestricted.
"""

from kcr_devcluster.apiserver.pod_security.baseline import SECCOMP_TYPES, proc_mount, seccomp
from kcr_devcluster.apiserver.pod_security.checks import (
    Check,
    VersionedCheck,
    Violation,
    containers,
    in_user_namespace,
    is_windows,
    named,
    plural,
    quoted,
    setters,
)
from kcr_devcluster.apiserver.protocol.manifests import Manifest

_VOLUMES = (
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
)  # fmt: skip
_RESTRICTED_VOLUMES = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi", "glusterfs", "rbd",
    "flexVolume", "cinder", "cephfs", "flocker", "fc", "azureFile", "vsphereVolume", "quobyte", "azureDisk",
    "photonPersistentDisk", "portworxVolume", "scaleIO", "storageos",
)  # fmt: skip


def _unless_windows(check: Check) -> Check:
    """Return a check that pods for Windows pass: they cannot have the fields."""

    def checked(metadata: Manifest, spec: Manifest) -> Violation | None:
        return None if is_windows(spec) else check(metadata, spec)

    return checked


def _unless_in_user_namespace(check: Check) -> Check:
    """Return a check that pods with users of their own pass."""

    def checked(metadata: Manifest, spec: Manifest) -> Violation | None:
        return None if in_user_namespace(spec) else check(metadata, spec)

    return checked


def _privilege_escalation(metadata: Manifest, spec: Manifest) -> Violation | None:
    bad = [name for name, _, context in containers(spec) if context.get("allowPrivilegeEscalation") is not False]
    if not bad:
        return None
    words = f"{named(bad)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", words)


def _capabilities(metadata: Manifest, spec: Manifest) -> Violation | None:
    keeping: list[str] = []
    adding: list[str] = []
    added: set[str] = set()
    for name, _, context in containers(spec):
        capabilities = context.get("capabilities") or {}
        more = set(capabilities.get("add") or ()) - {"NET_BIND_SERVICE"}
        if "ALL" not in (capabilities.get("drop") or ()):
            keeping.append(name)
        if more:
            adding.append(name)
            added |= more
    details = []
    if keeping:
        details.append(f'{named(keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        listed = quoted(sorted(added))
        details.append(f"{named(adding)} must not include {listed} in securityContext.capabilities.add")
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def _volumes(metadata: Manifest, spec: Manifest) -> Violation | None:
    bad = [one for one in spec.get("volumes") or () if all(one.get(name) is None for name in _VOLUMES)]
    if not bad:
        return None
    kinds = sorted({next((name for name in _RESTRICTED_VOLUMES if one.get(name)), "unknown") for one in bad})
    names = f"{plural('volume', len(bad))} {quoted(one.get('name', '') for one in bad)}"
    uses = "uses" if len(bad) == 1 else "use"
    many = plural("restricted volume type", len(kinds))
    return Violation("restricted volume types", f"{names} {uses} {many} {quoted(kinds)}")


def _run_as_non_root(metadata: Manifest, spec: Manifest) -> Violation | None:
    pod = (spec.get("securityContext") or {}).get("runAsNonRoot")
    said = {name: context.get("runAsNonRoot") for name, _, context in containers(spec)}
    if where := setters(pod is False, [name for name, value in said.items() if value is False]):
        return Violation("runAsNonRoot != true", f"{where} must not set securityContext.runAsNonRoot=false")
    silent = [name for name, value in said.items() if value is None and not pod]
    if not silent:
        return None
    return Violation("runAsNonRoot != true", f"pod or {named(silent)} must set securityContext.runAsNonRoot=true")


def _run_as_user(metadata: Manifest, spec: Manifest) -> Violation | None:
    pod = (spec.get("securityContext") or {}).get("runAsUser") == 0
    where = setters(pod, [name for name, _, context in containers(spec) if context.get("runAsUser") == 0])
    return Violation("runAsUser=0", f"{where} must not set runAsUser=0") if where else None


def _seccomp(metadata: Manifest, spec: Manifest) -> Violation | None:
    if found := seccomp(metadata, spec):
        return found
    pod = (spec.get("securityContext") or {}).get("seccompProfile") or {}
    silent = [name for name, _, context in containers(spec) if context.get("seccompProfile") is None]
    if not silent or pod.get("type") in SECCOMP_TYPES:
        return None
    words = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Violation("seccompProfile", f"pod or {named(silent)} {words}")


RESTRICTED: tuple[VersionedCheck, ...] = (
    VersionedCheck("allowPrivilegeEscalation", 8, _privilege_escalation),
    VersionedCheck("allowPrivilegeEscalation", 25, _unless_windows(_privilege_escalation)),
    VersionedCheck("capabilities_restricted", 22, _capabilities, "capabilities_baseline"),
    VersionedCheck("capabilities_restricted", 25, _unless_windows(_capabilities), "capabilities_baseline"),
    VersionedCheck("procMount_restricted", 35, proc_mount, "procMount"),
    VersionedCheck("restrictedVolumes", 0, _volumes, "hostPathVolumes"),
    VersionedCheck("runAsNonRoot", 0, _run_as_non_root),
    VersionedCheck("runAsNonRoot", 35, _unless_in_user_namespace(_run_as_non_root)),
    VersionedCheck("runAsUser", 23, _run_as_user),
    VersionedCheck("runAsUser", 35, _unless_in_user_namespace(_run_as_user)),
    VersionedCheck("seccompProfile_restricted", 19, _seccomp, "seccompProfile_baseline"),
    VersionedCheck("seccompProfile_restricted", 25, _unless_windows(_seccomp), "seccompProfile_baseline"),
)
