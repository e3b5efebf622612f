"""Workloads and groups of pods (`scheduling.k8s.io`), and Jobs that are scheduled together.

With v1alpha2, as in Kubernetes 1.36, the form of a Job makes it a gang, whose size is fixed; with v1beta1, as in 1.37,
`spec.scheduling` does.
"""

from collections.abc import Iterable
from dataclasses import replace

from kcr.api.resources import ResourceType
from kcr_devcluster.apiserver.kinds.catalogue import CRON_JOBS, JOBS
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.kinds.strategy import strategy_at

_GROUP, _STRATEGIES = "scheduling.k8s.io", "gang_strategies"


def _kinds(version: str, strategy: str) -> tuple[Kind, Kind]:
    make = strategy_at(f"{_STRATEGIES}:{strategy}")
    workloads = Kind(ResourceType(_GROUP, version, "Workload", "workloads"), make)
    groups = Kind(ResourceType(_GROUP, version, "PodGroup", "podgroups"), make, subresources=("status",))
    return workloads, groups


_ALPHA, _BETA = _kinds("v1alpha2", "FixedStrategy"), _kinds("v1beta1", "ResizableStrategy")
# A finalizer protects them while they have pods.
BETA_POD_GROUPS = _BETA[1]


def with_gangs(kinds: Iterable[Kind], version: str = "v1alpha2") -> tuple[Kind, ...]:
    """Return the kinds with those of gang scheduling in a version of its group, and Jobs that know of it."""
    own, strategies = (
        (_ALPHA, {JOBS: "GangJobStrategy"})
        if version == "v1alpha2"
        else (_BETA, {JOBS: "SchedulingJobStrategy", CRON_JOBS: "SchedulingCronJobStrategy"})
    )
    changed = {
        kind: replace(kind, make_strategy=strategy_at(f"{_STRATEGIES}:{name}")) for kind, name in strategies.items()
    }
    return (*(changed.get(kind, kind) for kind in kinds), *own)
