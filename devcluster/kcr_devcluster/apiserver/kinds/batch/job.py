"""The strategy of Jobs, and warnings about them.

Source: kubernetes/pkg/registry/batch/job/strategy.go.
"""

from kcr_devcluster.apiserver.kinds.batch.job_defaults import (
    copy_labels,
    default_job,
    generate_selector,
    has_generated_labels,
    is_automatic,
)
from kcr_devcluster.apiserver.kinds.batch.job_scheduling import keep_scheduling
from kcr_devcluster.apiserver.kinds.batch.job_spec import check_job
from kcr_devcluster.apiserver.kinds.batch.job_status import check_status
from kcr_devcluster.apiserver.kinds.batch.job_update import check_job_update
from kcr_devcluster.apiserver.kinds.pods.warnings import template_warnings
from kcr_devcluster.apiserver.kinds.strategy import Strategy
from kcr_devcluster.apiserver.protocol.field_errors import FieldError
from kcr_devcluster.apiserver.protocol.manifests import Manifest, semantic_equal
from kcr_devcluster.apiserver.protocol.names import dns_label


class JobStrategy(Strategy):
    """Jobs: selectors are generated, the status is guarded, and deleting one orphans its pods by default.

    Attributes:
        takes_scheduling: Whether they may say how they are scheduled.
    """

    takes_scheduling = False

    stored_as = ("batch/v1", "Job")
    has_generation = True
    default_propagation = "Orphan"

    def default(self, obj: Manifest) -> None:
        """Fill in the defaults; one without labels shows those of its template."""
        super().default(obj)
        default_job(obj)

    def prepare_create(self, obj: Manifest) -> None:
        """Empty the status and make the selector, unless the user brings one."""
        obj["status"] = {}
        keep_scheduling(obj["spec"], None, is_enabled=self.takes_scheduling)
        has_labels = bool(obj["spec"]["template"]["metadata"].get("labels"))
        if is_automatic(obj):
            generate_selector(obj)
        if has_labels:
            # A Job without labels shares those of its template, the generated ones among them, and both are validated.
            copy_labels(obj)

    def finish_create(self, obj: Manifest) -> None:
        """Copy the labels of the template to a Job without labels where all of them were generated."""
        copy_labels(obj)

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Keep the status, and how the Job is scheduled where that is not to be said."""
        super().prepare_update(new, old)
        keep_scheduling(new["spec"], old["spec"], is_enabled=self.takes_scheduling)

    def prepare_status(self, new: Manifest, old: Manifest) -> None:
        """Keep the spec; a Job without labels shows those of its template, whatever template the request has."""
        super().prepare_status(new, old)
        copy_labels(new)

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a new Job."""
        return check_job(obj)

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update; a spec that does not change is not validated again."""
        if new["spec"] == old["spec"]:
            return []
        return check_job(new, prefixed_labels=has_generated_labels(old)) + check_job_update(new, old)

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update of the status."""
        return check_status(new, old)

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return the warnings about a Job that is valid."""
        warnings = name_warnings(new) if old is None else []
        if old is None or not semantic_equal(new["spec"], old["spec"]):
            warnings += spec_warnings(new["spec"], "spec")
        return warnings


_MANY_COMPLETIONS, _MUCH_PARALLELISM = 100_000, 10_000


def name_warnings(obj: Manifest) -> list[str]:
    """Return the warning of a name that pods cannot carry on as their hostname."""
    reasons = dns_label(obj["metadata"].get("name", ""))
    if not reasons:
        return []
    return [
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "
        f"a DNS label is recommended: [{' '.join(reasons)}]"
    ]


def spec_warnings(spec: Manifest, field: str) -> list[str]:
    """Return the warnings of the spec of a Job."""
    warnings: list[str] = []
    if (
        spec.get("completionMode") == "Indexed"
        and (spec.get("completions") or 0) > _MANY_COMPLETIONS
        and (spec.get("parallelism") or 0) > _MUCH_PARALLELISM
    ):
        warnings.append(
            f"{field}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than "
            "10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        )
    return warnings + template_warnings(spec["template"]["spec"], f"{field}.template.spec")
