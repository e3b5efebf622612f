"""The behaviour of Jobs.

Source: kubernetes/pkg/registry/batch/job/strategy.go.
"""

from kcr.apiserver.kinds.batch.job_defaults import copy_labels, default_job
from kcr.apiserver.kinds.batch.job_spec import check_job
from kcr.apiserver.kinds.batch.job_status import check_status
from kcr.apiserver.kinds.batch.job_update import check_job_update
from kcr.apiserver.kinds.batch.job_warnings import name_warnings, spec_warnings
from kcr.apiserver.kinds.batch.selector import generate_selector, has_generated_labels, is_automatic
from kcr.apiserver.kinds.core.equality import same
from kcr.apiserver.kinds.core.shape import receive
from kcr.apiserver.kinds.strategy import FieldError, Manifest, Strategy
from kcr.apiserver.schema.builtin import kind_shape


class JobStrategy(Strategy):
    """Jobs: selectors are generated, the status is guarded, and deleting one orphans its pods by default."""

    has_generation = True
    default_propagation = "Orphan"

    def default(self, obj: Manifest) -> None:
        """Bring a Job into shape, and fill in the defaults; one without labels shows those of its template.

        Raises:
            UndecodableError: It is no Job.
        """
        receive(kind_shape("batch/v1", "Job"), obj)
        default_job(obj)

    def prepare_create(self, obj: Manifest) -> None:
        """Empty the status and make the selector, unless the user brings one."""
        obj["status"] = {}
        if is_automatic(obj):
            generate_selector(obj)

    def finish_create(self, obj: Manifest) -> None:
        """Copy the labels of the template, the generated ones among them, to a Job without labels."""
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
        warnings = name_warnings(new) if old is None else []
        if old is None or not same(new["spec"], old["spec"]):
            warnings += spec_warnings(new["spec"], "spec")
        return warnings
