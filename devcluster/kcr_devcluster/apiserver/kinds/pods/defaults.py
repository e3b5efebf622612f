"""Defaults of pods and pod templates.

Source: kubernetes/pkg/apis/core/v1/defaults.go; the admission plugin DefaultTolerationSeconds;
pkg/util/parsers/parsers.go, ParseImageName.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache

from kcr_devcluster.apiserver.protocol.manifests import Manifest

# The tolerations that admission adds.
EVICTION_TOLERATIONS: tuple[Manifest, ...] = tuple(
    {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for taint in ("not-ready", "unreachable")
)
_OWN_LABELS = (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))


def default_pod(spec: Manifest) -> None:
    """Fill in the spec of a pod, which has its constant defaults."""
    default_pod_spec(spec)
    host_network = spec.get("hostNetwork")
    for container in containers_of(spec):
        _requests_from_limits(container["resources"])
        if host_network:
            for port in container.get("ports") or ():
                if not port.get("hostPort"):
                    port["hostPort"] = port.get("containerPort", 0)
    if resources := spec.get("resources"):
        _requests_from_limits(resources, is_of_pods)
    spec.setdefault("enableServiceLinks", True)


def default_pod_spec(spec: Manifest) -> None:
    """Fill in the defaults that pods and pod templates share, beside the constant defaults."""
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in containers_of(spec):
        container.setdefault("imagePullPolicy", pull_policy(container.get("image") or ""))
        if "lifecycle" in container:
            _drop_stop_signal(container)
    for container in spec.get("ephemeralContainers") or ():
        container.setdefault("imagePullPolicy", pull_policy(container.get("image") or ""))
    for volume in spec.get("volumes") or ():
        if not volume.keys() - {"name"}:
            volume["emptyDir"] = {}
        elif "image" in volume and volume["image"] is not None:
            volume["image"].setdefault("pullPolicy", pull_policy(volume["image"].get("reference") or ""))


def _drop_stop_signal(container: Manifest) -> None:
    """Drop the field of a feature that is off, ContainerStopSignals."""
    lifecycle: Manifest = container["lifecycle"]
    if lifecycle.pop("stopSignal", None) is not None and not lifecycle:
        del container["lifecycle"]


def containers_of(spec: Manifest) -> Sequence[Manifest]:
    """Return the init containers, then the containers of a pod spec."""
    first, others = spec.get("initContainers"), spec.get("containers") or ()
    return [*first, *others] if first else others


def tolerate_eviction(pod: Manifest) -> None:
    """Add the two tolerations of evictions, as a default admission plugin does to every pod."""
    spec = pod["spec"]
    tolerations: list[Manifest] = spec.get("tolerations") or []
    missing = [
        dict(added)
        for added in EVICTION_TOLERATIONS
        if not tolerations or not any(_tolerates_eviction(one, added["key"]) for one in tolerations)
    ]
    if missing:
        spec["tolerations"] = [*tolerations, *missing]


def _tolerates_eviction(toleration: Manifest, key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


def _requests_from_limits(resources: Manifest, is_known: Callable[[str], bool] | None = None) -> None:
    """Default requests to the limits, for resource names that `is_known` accepts; None accepts all names."""
    limits = resources.get("limits")
    if limits:
        requests = resources.setdefault("requests", {})
        for name, value in limits.items():
            if is_known is None or is_known(name):
                requests.setdefault(name, value)


def is_of_pods(name: str) -> bool:
    """Return whether pods as a whole may have requests and limits of a resource."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def select_own_labels(spec: Manifest, labels: Mapping[str, str]) -> None:
    """Add the values of a pod's own labels to selectors that name labels alone: of its affinities and spread.

    Source: kubernetes/pkg/registry/core/pod/strategy.go, applyMatchLabelKeysAndMismatchLabelKeys.
    """
    for term in _own_selections(spec):
        selector = term.get("labelSelector")
        added = [{"key": key, "operator": operator, "values": [labels[key]]}
                 for name, operator in _OWN_LABELS for key in term.get(name) or () if key in labels]  # fmt: skip
        if selector is not None and added:
            selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), *added]


def _own_selections(spec: Manifest) -> Iterator[Manifest]:
    yield from spec.get("topologySpreadConstraints") or ()
    for name in ("podAffinity", "podAntiAffinity"):
        affinity = (spec.get("affinity") or {}).get(name) or {}
        yield from affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for preferred in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield preferred.get("podAffinityTerm") or {}


_LONGEST_NAME = 255
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_DOMAIN = rf"{_HOST}(?:\.{_HOST})*(?::[0-9]+)?"
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_DOMAIN}/)?{_PART}(?:/{_PART})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)


@lru_cache(1024)
def pull_policy(image: str) -> str:
    """Return the default pull policy: `Always` for the tag `latest` or none, else `IfNotPresent`."""
    found = _REFERENCE.fullmatch(image)
    if found is None or len(found["name"]) > _LONGEST_NAME:
        return "IfNotPresent"
    tag = found["tag"] or ("" if found["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"
