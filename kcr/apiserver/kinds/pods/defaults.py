"""Defaults of pods and pod templates.

Source: kubernetes/pkg/apis/core/v1/defaults.go; the admission plugins Priority and DefaultTolerationSeconds;
pkg/util/parsers/parsers.go, ParseImageName.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from kcr.apiserver.kinds.strategy import Manifest

# The two priority classes of every cluster; others are not served here, and mean nothing.
_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_CONTAINER_DEFAULTS = (
    ("terminationMessagePath", "/dev/termination-log"),
    ("terminationMessagePolicy", "File"),
)
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS = (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3))
_EVICTIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_FILE_MODE = 420


def default_pod(pod: Manifest) -> None:
    """Fill in the spec of a pod that is in shape."""
    spec: Manifest = pod.setdefault("spec", {})
    default_pod_spec(spec)
    for container in containers_of(spec):
        _requests_from_limits(container["resources"])
        if spec.get("hostNetwork"):
            for port in container.get("ports") or ():
                if not port.get("hostPort"):
                    port["hostPort"] = port.get("containerPort", 0)
    if spec.get("resources"):
        _requests_from_limits(spec["resources"])
    spec.setdefault("enableServiceLinks", True)


def default_pod_spec(spec: Manifest) -> None:
    """Fill in the part that pods and pod templates share."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in containers_of(spec):
        _default_container(container)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)


def containers_of(spec: Manifest) -> Iterator[Manifest]:
    """Yield the init containers, then the containers of a pod spec."""
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def admit(pod: Manifest) -> None:
    """Do what the stock admission plugins do to every pod: priority and the two tolerations of evictions."""
    spec = pod["spec"]
    spec.setdefault("priority", _PRIORITIES.get(spec.get("priorityClassName", ""), 0))
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    tolerations: list[Manifest] = spec.get("tolerations") or []
    missing = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in _EVICTIONS
        if not any(_tolerates_eviction(toleration, key) for toleration in tolerations)
    ]
    if missing:
        spec["tolerations"] = [*tolerations, *missing]


def _tolerates_eviction(toleration: Manifest, key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


def _default_container(container: Manifest) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(container.get("image") or "")
    for name, value in _CONTAINER_DEFAULTS:
        if not container.get(name):
            container[name] = value
    container.setdefault("resources", {})
    for port in container.get("ports") or ():
        port["protocol"] = port.get("protocol") or "TCP"
    for variable in container.get("env") or ():
        _default_source(variable.get("valueFrom") or {})
    _default_handlers(container)


def _default_handlers(container: Manifest) -> None:
    for name in _PROBES:
        if name in container:
            _default_probe(container[name])
    hooks = container.get("lifecycle") or {}
    for name in ("postStart", "preStop"):
        _default_http(hooks.get(name) or {})


def _default_source(source: Manifest) -> None:
    if "fieldRef" in source:
        source["fieldRef"].setdefault("apiVersion", "v1")
    if "resourceFieldRef" in source:
        source["resourceFieldRef"].setdefault("divisor", "0")


def _default_probe(probe: Manifest) -> None:
    for name, value in _PROBE_DEFAULTS:
        if not probe.get(name):
            probe[name] = value
    _default_http(probe)
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _default_http(handler: Manifest) -> None:
    action = handler.get("httpGet")
    if action is not None:
        if not action.get("path"):
            action["path"] = "/"
        if not action.get("scheme"):
            action["scheme"] = "HTTP"


def _requests_from_limits(resources: Manifest) -> None:
    limits = resources.get("limits")
    if limits:
        requests = resources.setdefault("requests", {})
        for name, value in limits.items():
            requests.setdefault(name, value)


def _default_volume(volume: Manifest) -> None:
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}
    for source, default in _VOLUME_DEFAULTS.items():
        if source in volume:
            default(volume[source])


def _default_mode(source: Manifest) -> None:
    source.setdefault("defaultMode", _FILE_MODE)


def _default_downward(source: Manifest) -> None:
    _default_mode(source)
    for item in source.get("items") or ():
        _default_source(item)


def _default_projected(source: Manifest) -> None:
    _default_mode(source)
    for one in source.get("sources") or ():
        if "serviceAccountToken" in one:
            one["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        for item in (one.get("downwardAPI") or {}).get("items") or ():
            _default_source(item)


def _default_host_path(source: Manifest) -> None:
    source.setdefault("type", "")


_VOLUME_DEFAULTS: dict[str, Callable[[Manifest], None]] = {
    "configMap": _default_mode,
    "downwardAPI": _default_downward,
    "hostPath": _default_host_path,
    "projected": _default_projected,
    "secret": _default_mode,
}


_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_DOMAIN = rf"{_HOST}(?:\.{_HOST})*(?::[0-9]+)?"
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:{_DOMAIN}/)?{_PART}(?:/{_PART})*(?::(?P<tag>\w[\w.-]{{0,127}}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)


@lru_cache(1024)
def pull_policy(image: str) -> str:
    """Return the default pull policy: `Always` for `latest`, spoken or not, else `IfNotPresent`."""
    found = _REFERENCE.fullmatch(image)
    if found is None:
        return "IfNotPresent"
    tag = found["tag"] or ("" if found["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"
