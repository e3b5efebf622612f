"""Warnings about pod specs that are valid.

Source: kubernetes/pkg/api/pod/warnings.go.
"""

from collections.abc import Iterator, Mapping, Sequence

from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.schema.quantities import whole

_DEPRECATED_LABELS = {
    "beta.kubernetes.io/arch": ("v1.14", "kubernetes.io/arch"),
    "beta.kubernetes.io/os": ("v1.14", "kubernetes.io/os"),
    "failure-domain.beta.kubernetes.io/region": ("v1.17", "topology.kubernetes.io/region"),
    "failure-domain.beta.kubernetes.io/zone": ("v1.17", "topology.kubernetes.io/zone"),
    "beta.kubernetes.io/instance-type": ("v1.17", "node.kubernetes.io/instance-type"),
}
_DEPRECATED_VOLUMES = {
    "gitRepo": "v1.11, and disabled by default in v1.33+",
    "photonPersistentDisk": "v1.11, non-functional in v1.16+",
    "scaleIO": "v1.16, non-functional in v1.22+",
    **dict.fromkeys(("flocker", "quobyte", "storageos"), "v1.22, non-functional in v1.25+"),
    "glusterfs": "v1.25, non-functional in v1.26+",
    **dict.fromkeys(("cephfs", "rbd"), "v1.28, non-functional in v1.31+"),
}
_CRITICAL = "scheduler.alpha.kubernetes.io/critical-pod"


def template_warnings(spec: Manifest, field: str) -> list[str]:
    """Return the warnings of a pod spec."""
    warnings: list[str] = []
    if volumes := spec.get("volumes"):
        warnings += _volume_warnings(volumes, field)
    if secrets := spec.get("imagePullSecrets"):
        warnings += _secret_warnings(secrets, field)
    if selector := spec.get("nodeSelector"):
        for label in sorted(selector.keys() & _DEPRECATED_LABELS.keys()):
            since, better = _DEPRECATED_LABELS[label]
            warnings.append(f'{field}.nodeSelector[{label}]: deprecated since {since}; use "{better}" instead')
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        words = "must be >= 0; negative values are invalid and will be treated as 1"
        warnings.append(f"{field}.terminationGracePeriodSeconds: {words}")
    for kind in ("initContainers", "containers"):
        for position, container in enumerate(spec.get(kind) or ()):
            warnings += _container_warnings(container, f"{field}.{kind}[{position}]")
    return warnings


def annotation_warnings(annotations: Mapping[str, str], field: str) -> list[str]:
    """Return the warnings of annotations without an effect."""
    words = 'non-functional in v1.16+; use the "priorityClassName" field instead'
    return [f"{field}[{_CRITICAL}]: {words}"] if _CRITICAL in annotations else []


def _volume_warnings(volumes: Sequence[Manifest], field: str) -> Iterator[str]:
    for position, volume in enumerate(volumes):
        for kind in volume.keys() & _DEPRECATED_VOLUMES.keys():
            yield f"{field}.volumes[{position}].{kind}: deprecated in {_DEPRECATED_VOLUMES[kind]}"
        for source in (volume.get("projected") or {}).get("sources") or ():
            if not any(value is not None for value in source.values()):
                yield f'volume "{volume.get("name", "")}" (Projected) has no sources provided'


def _secret_warnings(secrets: Sequence[Manifest], field: str) -> Iterator[str]:
    seen: set[str] = set()
    for position, secret in enumerate(secrets):
        path, name = f"{field}.imagePullSecrets[{position}].name", secret.get("name", "")
        if not name:
            yield f'{path}: invalid empty name ""'
        elif name in seen:
            yield f'{path}: duplicate name "{name}"'
        seen.add(name)


def _container_warnings(container: Manifest, field: str) -> Iterator[str]:
    resources = container.get("resources") or {}
    for part in ("limits", "requests") if resources else ():
        value = resources.get(part, {}).get("memory", "0")
        if not whole(value):
            yield f'{field}.resources.{part}[memory]: fractional byte value "{value}" is invalid, must be an integer'
    env = [variable.get("name", "") for variable in container.get("env") or ()]
    for position, name in enumerate(env) if len(set(env)) < len(env) else ():
        if name in env[:position]:
            words = f'hides previous definition of "{name}", which may be dropped when using apply'
            yield f"{field}.env[{position}]: {words}"
    ports: dict[tuple[object, ...], int] = {}
    for position, port in enumerate(container.get("ports") or ()):
        key = tuple(port.get(part) for part in ("containerPort", "hostPort", "hostIP", "protocol"))
        if key in ports:
            yield f"{field}.ports[{position}]: duplicate port definition with {field}.ports[{ports[key]}]"
        ports.setdefault(key, position)
