"""Workloads and groups of pods (`scheduling.k8s.io/v1alpha2`), and Jobs that are scheduled all or none.

Source: kubernetes/pkg/registry/scheduling/workload/strategy.go; job-controller §35.
"""

from collections.abc import Iterable
from dataclasses import replace

from kcr.api.resources import ResourceType
from kcr_devcluster.apiserver.kinds.batch.job import JobStrategy
from kcr_devcluster.apiserver.kinds.catalogue import JOBS, Kind
from kcr_devcluster.apiserver.kinds.strategy import Strategy
from kcr_devcluster.apiserver.protocol.field_errors import IMMUTABLE, FieldError, invalid
from kcr_devcluster.apiserver.protocol.manifests import Manifest

_GROUP, _VERSION = "scheduling.k8s.io", "v1alpha2"


class FixedStrategy(Strategy):
    """Objects whose spec is said once."""

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update."""
        before, after = old.get("spec"), new.get("spec")
        return [invalid("spec", after, IMMUTABLE)] if after != before else []


class GangJobStrategy(JobStrategy):
    """Jobs as ever, but that the size of a gang is fixed."""

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update."""
        errors = super().validate_update(new, old)
        after = new["spec"].get("parallelism")
        if _is_gang(old["spec"]) and after != old["spec"].get("parallelism"):
            words = "cannot change parallelism for a Job referencing gang-scheduled PodGroup"
            errors.append(invalid("spec.parallelism", after, words))
        return errors


def _is_gang(spec: Manifest) -> bool:
    wanted = spec.get("parallelism") or 0
    return spec.get("completionMode") == "Indexed" and wanted > 1 and wanted == spec.get("completions")


WORKLOADS = Kind(ResourceType(_GROUP, _VERSION, "Workload", "workloads"), FixedStrategy)
POD_GROUPS = Kind(
    ResourceType(_GROUP, _VERSION, "PodGroup", "podgroups"), FixedStrategy, subresources=("status",)
)  # fmt: skip


def with_gangs(kinds: Iterable[Kind]) -> tuple[Kind, ...]:
    """Return the kinds with those of gang scheduling, and Jobs that know of it."""
    jobs = replace(JOBS, make_strategy=GangJobStrategy)
    return (*(jobs if kind is JOBS else kind for kind in kinds), WORKLOADS, POD_GROUPS)
