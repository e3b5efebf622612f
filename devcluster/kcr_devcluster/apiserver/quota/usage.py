"""Usage: the amounts that one object counts for in a quota.

Source: kubernetes/pkg/quota/v1/evaluator/core/{pods,services,persistent_volume_claims,registry}.go;
kubernetes/staging/src/k8s.io/component-helpers/resource/helpers.go, PodRequests, PodLimits.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import NamedTuple

from kcr_devcluster.apiserver.kinds.catalogue import (
    CLAIMS,
    CONFIG_MAPS,
    PODS,
    REPLICATION_CONTROLLERS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICES,
)
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.kinds.pods.defaults import containers_of
from kcr_devcluster.apiserver.protocol.manifests import Manifest, clamped_seconds
from kcr_devcluster.apiserver.schema.quantities import amount

# Amounts by the names that quotas use, in billionths.
Amounts = Mapping[str, int]

ONE = 10**9
_LIMITED = ("cpu", "memory", "ephemeral-storage")
# Kinds that quotas may count without `count/`, as claims.
_SHORT = (CONFIG_MAPS, REPLICATION_CONTROLLERS, RESOURCE_QUOTAS, SECRETS, SERVICES)
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
# Resources that every container must state once a quota limits them.
_STATED = frozenset(f"{kind}{name}" for kind in ("", "requests.", "limits.") for name in ("cpu", "memory"))


class Usage(NamedTuple):
    """The amounts that an object uses of a quota.

    Attributes:
        amounts: The present amounts.
        until: When it uses less without being changed; None for never.
        rest: The amounts from then on.
    """

    amounts: Amounts
    until: datetime | None = None
    rest: Amounts = {}


NO_USAGE = Usage({})


def usage_of(kind: Kind, obj: Manifest) -> Usage:
    """Return the usage of an object of any kind.

    Finished pods count as objects only. So do terminating pods after their grace period: no kubelet may be left to
    confirm that they have stopped.
    """
    counted = {f"count/{kind.type.display}": ONE}
    if kind in _SHORT:
        counted[kind.type.plural] = ONE
    if kind is not PODS:
        return Usage({**counted, **_FURTHER[kind](obj)} if kind in _FURTHER else counted)
    if (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return Usage(counted)
    metadata, amounts = obj["metadata"], {**counted, "pods": ONE, **_resources(obj["spec"])}
    if "deletionTimestamp" not in metadata:
        return Usage(amounts)
    # The timestamp includes the grace period already; upstream adds it once more.
    grace = clamped_seconds(metadata.get("deletionGracePeriodSeconds") or 0)
    return Usage(amounts, datetime.fromisoformat(metadata["deletionTimestamp"]) + grace, counted)


def _service_usage(obj: Manifest) -> Amounts:
    """Return the ports on nodes and the load balancers that a Service is to get."""
    spec = obj["spec"]
    service_type, ports = spec.get("type"), spec.get("ports") or ()
    if service_type not in ("NodePort", "LoadBalancer"):
        return {}
    is_balanced = service_type == "LoadBalancer"
    if is_balanced and spec.get("allocateLoadBalancerNodePorts") is False:
        ports = [port for port in ports if port.get("nodePort")]
    found = {"services.nodeports": len(ports) * ONE, "services.loadbalancers": is_balanced * ONE}
    return {name: value for name, value in found.items() if value}


def _claim_usage(obj: Manifest) -> Amounts:
    """Return the storage that a claim requests, in whole bytes, also by its storage class."""
    spec, allocated = obj["spec"], (obj.get("status") or {}).get("allocatedResources") or {}
    requests = (spec.get("resources") or {}).get("requests") or {}
    found = {"persistentvolumeclaims": ONE}
    if "storage" in requests:
        most = max(amount(requests["storage"]), amount(allocated.get("storage", "0")))
        found["requests.storage"] = -(-most // ONE) * ONE
    annotations = obj["metadata"].get("annotations") or {}
    storage_class = annotations.get(_CLASS_ANNOTATION) or spec.get("storageClassName")
    if storage_class:
        found |= {f"{storage_class}.storageclass.storage.k8s.io/{name}": value for name, value in found.items()}
    return found


# Usage beside the number of objects. It may grow in an update, which may then exceed a quota.
_FURTHER: Mapping[Kind, Callable[[Manifest], Amounts]] = {SERVICES: _service_usage, CLAIMS: _claim_usage}
GROWING = tuple(_FURTHER)


def _resources(spec: Manifest) -> dict[str, int]:
    """Return the requests and limits of a pod by the names that quotas use."""
    requests, limits = total_resources(spec, "requests"), total_resources(spec, "limits")
    requested = {name: value for name, value in requests.items() if "/" not in name}
    requested |= {f"requests.{name}": value for name, value in requests.items()}
    return requested | {f"limits.{name}": limits[name] for name in _LIMITED if name in limits}


def total_resources(spec: Manifest, which: str) -> dict[str, int]:
    """Return the effective request or limit of a pod: the maximum of init containers and containers, plus overhead.

    Args:
        spec: The pod's spec.
        which: `requests` or `limits`.
    """
    running: dict[str, int] = {}
    for container in spec.get("containers") or ():
        _add(running, _stated(container, which))
    sidecars: dict[str, int] = {}
    preparing: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        now = dict(sidecars)
        _add(now, _stated(container, which))
        if container.get("restartPolicy") == "Always":
            sidecars = now
            _add(running, _stated(container, which))
        preparing |= {name: max(value, preparing.get(name, 0)) for name, value in now.items()}
    total = running | {name: max(value, running.get(name, 0)) for name, value in preparing.items()}
    total |= _stated(spec, which)
    overhead = {name: amount(value) for name, value in (spec.get("overhead") or {}).items()}
    if which == "limits":
        overhead = {name: value for name, value in overhead.items() if name in total}
    _add(total, overhead)
    return total


def _stated(part: Manifest, which: str) -> dict[str, int]:
    """Return the amounts that a container, or a pod as a whole, states for itself."""
    stated = (part.get("resources") or {}).get(which) or {}
    return {name: amount(value) for name, value in stated.items()}


def _add(total: dict[str, int], more: Amounts) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def missing_resources(spec: Manifest, limited: Amounts) -> str:
    """Return limited resources that a pod does not state, such as `requests.cpu for: main`; `""` for nothing.

    Args:
        spec: The pod's spec.
        limited: The limits of the quota.
    """
    if spec.get("resources"):
        return ""
    missing: dict[str, set[str]] = {}
    for container in containers_of(spec):
        stated = _resources({"containers": [container]})
        for name in _STATED & limited.keys() - stated.keys():
            missing.setdefault(name, set()).add(container["name"])
    return "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))


# Which pods a quota is about, by the names of scopes.
SCOPES: Mapping[str, Callable[[Manifest], bool]] = {
    "Terminating": lambda pod: pod["spec"].get("activeDeadlineSeconds") is not None,
    "NotTerminating": lambda pod: pod["spec"].get("activeDeadlineSeconds") is None,
    "BestEffort": lambda pod: pod["status"].get("qosClass") == "BestEffort",
    "NotBestEffort": lambda pod: pod["status"].get("qosClass") != "BestEffort",
    "PriorityClass": lambda pod: bool(pod["spec"].get("priorityClassName")),
}
