"""Strategies of Workloads and groups of pods, and of Jobs that are scheduled together.

Source: kubernetes/pkg/registry/scheduling/{workload,podgroup}/strategy.go; job-controller §35; KEP-4671, KEP-5547.
"""

from collections.abc import Iterator
from copy import deepcopy

from kcr_devcluster.apiserver.kinds.batch.cronjob import CronJobStrategy
from kcr_devcluster.apiserver.kinds.batch.job import JobStrategy
from kcr_devcluster.apiserver.kinds.batch.job_scheduling import check_policy, drop_size
from kcr_devcluster.apiserver.kinds.strategy import Strategy
from kcr_devcluster.apiserver.protocol.field_errors import IMMUTABLE, FieldError, invalid, required, too_many
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import dns_label

_MOST_TEMPLATES = 8


class FixedStrategy(Strategy):
    """Objects whose spec is said once."""

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update."""
        before, after = old.get("spec"), new.get("spec")
        return [invalid("spec", after, IMMUTABLE)] if after != before else []


class ResizableStrategy(FixedStrategy):
    """Workloads and groups of v1beta1: of their spec, the size of a gang may change."""

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a new object."""
        return [
            error for path, policy in _policies(obj) for error in check_policy(policy, path, needs_count=True)
        ] + _check_templates(obj["spec"], is_group="schedulingPolicy" in obj["spec"])

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update."""
        before, after = deepcopy(old), deepcopy(new)
        for _, policy in (*_policies(before), *_policies(after)):
            drop_size(policy)
        return self.validate(new) + super().validate_update(after, before)


def _policies(obj: Manifest) -> Iterator[tuple[str, Manifest]]:
    """Yield the scheduling policies of a Workload or a group, by their paths."""
    spec = obj["spec"]
    for position, template in enumerate(spec.get("podGroupTemplates") or ()):
        yield f"spec.podGroupTemplates[{position}].schedulingPolicy", template.get("schedulingPolicy") or {}
    if "schedulingPolicy" in spec:
        yield "spec.schedulingPolicy", spec["schedulingPolicy"] or {}


def _check_templates(spec: Manifest, *, is_group: bool) -> list[FieldError]:
    field, templates = "spec.podGroupTemplates", spec.get("podGroupTemplates") or ()
    if is_group:
        return []
    if not templates:
        return [required(field)]
    errors = [too_many(field, len(templates), _MOST_TEMPLATES)] if len(templates) > _MOST_TEMPLATES else []
    for position, template in enumerate(templates):
        name = template.get("name", "")
        errors += [invalid(f"{field}[{position}].name", name, reason) for reason in dns_label(name)]
    return errors


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


class SchedulingJobStrategy(JobStrategy):
    """Jobs that say how they are scheduled."""

    takes_scheduling = True


class SchedulingCronJobStrategy(CronJobStrategy):
    """CronJobs whose Jobs say how they are scheduled."""

    takes_scheduling = True


def _is_gang(spec: Manifest) -> bool:
    wanted = spec.get("parallelism") or 0
    return spec.get("completionMode") == "Indexed" and wanted > 1 and wanted == spec.get("completions")
