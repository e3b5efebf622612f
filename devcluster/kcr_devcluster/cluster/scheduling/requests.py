"""Resource requests of a pod.

Source: kubernetes/staging/src/k8s.io/component-helpers/resource/helpers.go, PodRequests;
kubernetes/pkg/scheduler/util/pod_resources.go, GetNonzeroRequestForResource.
"""

from collections.abc import Mapping

from kcr_devcluster.apiserver.schema.quantities import amount
from kcr_devcluster.cluster.scheduling.objects import ScheduledPodSpec

# By resource, in billionths.
Amounts = Mapping[str, int]

ONE = 10**9
# The requests that scores assume for a container without any.
_USUAL = {"cpu": ONE // 10, "memory": 200 * 1024 * 1024 * ONE}


def pod_requests(spec: ScheduledPodSpec) -> dict[str, int]:
    """Return the requests of a pod: the maximum of its init containers and its containers, and its overhead.

    Sidecars run beside the containers, and beside the init containers that follow them. Requests of the pod as a whole
    replace those of its containers.
    """
    total = _requests_of_containers(spec)
    if spec.resources.requests:
        total |= amounts(spec.resources.requests)
    if spec.overhead:
        _add(total, amounts(spec.overhead))
    return total


def _requests_of_containers(spec: ScheduledPodSpec) -> dict[str, int]:
    running: dict[str, int] = {}
    for container in spec.containers:
        if container.resources.requests:
            _add(running, amounts(container.resources.requests))
    if not spec.init_containers:
        return running
    sidecars: dict[str, int] = {}
    preparing: dict[str, int] = {}
    for container in spec.init_containers:
        stated = amounts(container.resources.requests)
        now = dict(sidecars)
        _add(now, stated)
        if container.restart_policy == "Always":
            sidecars = now
            _add(running, stated)
        _raise_to(preparing, now)
    _raise_to(running, preparing)
    return running


def scored_requests(spec: ScheduledPodSpec, requests: Amounts) -> tuple[int, int]:
    """Return the cpu and memory that scores count: containers that request none count for a usual one."""
    return _scored(spec, requests, "cpu"), _scored(spec, requests, "memory")


def _scored(spec: ScheduledPodSpec, requests: Amounts, name: str) -> int:
    missing = sum(name not in container.resources.requests for container in spec.containers)
    return requests.get(name, 0) + missing * _USUAL[name]


def amounts(stated: Mapping[str, str]) -> dict[str, int]:
    """Return quantities in billionths."""
    return {name: amount(value) for name, value in stated.items()}


def _add(total: dict[str, int], more: Amounts) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _raise_to(total: dict[str, int], least: Amounts) -> None:
    for name, value in least.items():
        total[name] = max(value, total.get(name, 0))
