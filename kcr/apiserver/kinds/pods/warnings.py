"""Warnings about pod specs that are valid.

Source: kubernetes/pkg/api/pod/warnings.go.
"""

from collections.abc import Iterator

from kcr.apiserver.kinds.strategy import Manifest
from kcr.apiserver.schema.quantities import whole

_DEPRECATED_LABELS = {
    "beta.kubernetes.io/arch": ("v1.14", "kubernetes.io/arch"),
    "beta.kubernetes.io/os": ("v1.14", "kubernetes.io/os"),
    "failure-domain.beta.kubernetes.io/region": ("v1.17", "topology.kubernetes.io/region"),
    "failure-domain.beta.kubernetes.io/zone": ("v1.17", "topology.kubernetes.io/zone"),
    "beta.kubernetes.io/instance-type": ("v1.17", "node.kubernetes.io/instance-type"),
}


def template_warnings(spec: Manifest, field: str) -> list[str]:
    """Return the warnings of a pod spec."""
    warnings: list[str] = []
    for label in sorted(spec.get("nodeSelector") or {}):
        if label in _DEPRECATED_LABELS:
            since, better = _DEPRECATED_LABELS[label]
            warnings.append(f'{field}.nodeSelector[{label}]: deprecated since {since}; use "{better}" instead')
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        words = "must be >= 0; negative values are invalid and will be treated as 1"
        warnings.append(f"{field}.terminationGracePeriodSeconds: {words}")
    for kind in ("initContainers", "containers"):
        for position, container in enumerate(spec.get(kind) or ()):
            warnings += _container_warnings(container, f"{field}.{kind}[{position}]")
    return warnings


def _container_warnings(container: Manifest, field: str) -> Iterator[str]:
    for part in ("limits", "requests"):
        value = (container.get("resources") or {}).get(part, {}).get("memory", "0")
        if not whole(value):
            yield f'{field}.resources.{part}[memory]: fractional byte value "{value}" is invalid, must be an integer'
    names: set[str] = set()
    for position, variable in enumerate(container.get("env") or ()):
        name = variable.get("name", "")
        if name in names:
            words = f'hides previous definition of "{name}", which may be dropped when using apply'
            yield f"{field}.env[{position}]: {words}"
        names.add(name)
    ports: dict[tuple[object, ...], int] = {}
    for position, port in enumerate(container.get("ports") or ()):
        key = tuple(port.get(part) for part in ("containerPort", "hostPort", "hostIP", "protocol"))
        if key in ports:
            yield f"{field}.ports[{position}]: duplicate port definition with {field}.ports[{ports[key]}]"
        ports.setdefault(key, position)
