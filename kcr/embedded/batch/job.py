"""The behaviour of Jobs.

Source: kubernetes/pkg/registry/batch/job/strategy.go.
"""

from kcr.embedded.batch.job_defaults import copy_labels, default_job
from kcr.embedded.batch.job_spec import check_job
from kcr.embedded.batch.job_status import check_status
from kcr.embedded.batch.job_update import check_job_update
from kcr.embedded.batch.selector import generate_selector, has_generated_labels, is_automatic
from kcr.embedded.batch.shapes import SHAPES
from kcr.embedded.core.equality import same
from kcr.embedded.core.names import dns_label
from kcr.embedded.core.pod_warnings import template_warnings
from kcr.embedded.strategy import FieldError, Manifest, Strategy

_MANY_COMPLETIONS, _MUCH_PARALLELISM = 100_000, 10_000


class JobStrategy(Strategy):
    """Jobs: selectors are generated, the status is guarded, and deleting one orphans its pods by default."""

    has_generation = True
    default_propagation = "Orphan"

    def default(self, obj: Manifest) -> None:
        """Bring a Job into shape, and fill in the defaults; one without labels shows those of its template.

        Raises:
            UndecodableError: It is no Job.
        """
        SHAPES["Job"].receive("Job", "v1", obj)
        default_job(obj)

    def prepare_create(self, obj: Manifest) -> None:
        """Empty the status and make the selector, unless the user brings one."""
        obj["status"] = {}
        if is_automatic(obj):
            generate_selector(obj)
        copy_labels(obj)

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the faults of a new Job."""
        return check_job(obj)

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the faults of a change; what is stored was found good already."""
        if new["spec"] == old["spec"]:
            return []
        return check_job(new, prefixed_labels=has_generated_labels(old)) + check_job_update(new, old)

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the faults of a change of the status."""
        return check_status(new, old)

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return what the user should know about a Job that is accepted."""
        spec, warnings = new["spec"], list[str]()
        reasons = dns_label(new["metadata"].get("name", "")) if old is None else ()
        if reasons:
            warnings.append(
                "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "
                f"a DNS label is recommended: [{' '.join(reasons)}]"
            )
        if old is not None and same(spec, old["spec"]):
            return warnings
        if (
            spec.get("completionMode") == "Indexed"
            and (spec.get("completions") or 0) > _MANY_COMPLETIONS
            and spec["parallelism"] > _MUCH_PARALLELISM
        ):
            warnings.append(
                "spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than "
                "10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
            )
        return warnings + template_warnings(spec["template"]["spec"], "spec.template.spec")
