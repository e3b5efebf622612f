"""Workloads and groups of pods (`scheduling.k8s.io`), and Jobs that are scheduled together.

With v1alpha2, in Kubernetes 1.36, the form of a Job makes it a gang, whose size is fixed. In 1.37 `spec.scheduling`
does; v1beta1 and v1alpha3 are two views of the same objects, with the same fields.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from kcr.api.resources import ResourceType
from kcr_devcluster.apiserver.kinds.catalogue import CRON_JOBS, JOBS
from kcr_devcluster.apiserver.kinds.kind import Conversion, Kind
from kcr_devcluster.apiserver.kinds.strategy import strategy_at
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.schema.builtin import kind_shape
from kcr_devcluster.versions import TRAITS, KubernetesVersion

_GROUP, _STRATEGIES = "scheduling.k8s.io", "gang_strategies"


def _kinds(version: str, strategy: str) -> tuple[Kind, Kind]:
    make = strategy_at(f"{_STRATEGIES}:{strategy}")
    workloads = Kind(ResourceType(_GROUP, version, "Workload", "workloads"), make)
    groups = Kind(ResourceType(_GROUP, version, "PodGroup", "podgroups"), make, subresources=("status",))
    return workloads, groups


def _in_alpha(hub: Kind) -> Kind:
    """Return a kind of v1beta1 as v1alpha3 shows it."""
    resource = hub.type._replace(version="v1alpha3")

    def convert(version: str, obj: Manifest) -> None:
        obj["apiVersion"] = version

    shape = kind_shape(resource.api_version, resource.kind)
    to_hub, from_hub = (partial(convert, one.api_version) for one in (hub.type, resource))
    return replace(hub, type=resource, conversion=Conversion(hub, shape, to_hub, from_hub, same_fields=True))


_ALPHA, _BETA = _kinds("v1alpha2", "FixedStrategy"), _kinds("v1beta1", "ResizableStrategy")
# A finalizer protects them while they have pods.
BETA_POD_GROUPS = _BETA[1]


def with_gangs(kinds: Iterable[Kind], version: KubernetesVersion) -> tuple[Kind, ...]:
    """Return the kinds with those of gang scheduling in a version of Kubernetes, and Jobs that know of it."""
    own: tuple[Kind, ...] = _ALPHA
    strategies = {JOBS: "GangJobStrategy"}
    if not TRAITS[version].gangs_by_form:
        own = (*_BETA, *map(_in_alpha, _BETA))
        strategies = {JOBS: "SchedulingJobStrategy", CRON_JOBS: "SchedulingCronJobStrategy"}
    changed = {
        kind: replace(kind, make_strategy=strategy_at(f"{_STRATEGIES}:{name}")) for kind, name in strategies.items()
    }
    return (*(changed.get(kind, kind) for kind in kinds), *own)
