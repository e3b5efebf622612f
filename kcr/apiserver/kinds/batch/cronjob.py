"""The behaviour of CronJobs.

Source: kubernetes/pkg/registry/batch/cronjob/strategy.go; pkg/apis/batch/v1/defaults.go, SetDefaults_CronJob.
"""

from kcr.apiserver.kinds.batch.cronjob_spec import check_cronjob_spec, names_zone
from kcr.apiserver.kinds.batch.job_defaults import default_parts
from kcr.apiserver.kinds.batch.job_warnings import name_warnings, spec_warnings
from kcr.apiserver.kinds.core.equality import same
from kcr.apiserver.kinds.core.shape import receive
from kcr.apiserver.kinds.field_errors import invalid
from kcr.apiserver.kinds.strategy import FieldError, Manifest, Strategy
from kcr.apiserver.schema.builtin import kind_shape

# The names of its Jobs add a dash and ten digits, and have to be labels.
_LONGEST_NAME = 52


class CronJobStrategy(Strategy):
    """CronJobs: their Jobs get most of their defaults when they are made, and the status is not judged."""

    has_generation = True

    def default(self, obj: Manifest) -> None:
        """Bring a CronJob into shape, and fill in the defaults.

        Raises:
            UndecodableError: It is no CronJob.
        """
        receive(kind_shape("batch/v1", "CronJob"), obj)
        spec: Manifest = obj.setdefault("spec", {})
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        template = spec.setdefault("jobTemplate", {})
        template.setdefault("metadata", {})
        default_parts(template.setdefault("spec", {}))
        obj.setdefault("status", {})

    def prepare_create(self, obj: Manifest) -> None:
        """Empty the status."""
        obj["status"] = {}

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the faults of a new CronJob."""
        name = obj["metadata"].get("name", "")
        faults: list[FieldError] = []
        if len(name) > _LONGEST_NAME:
            faults.append(invalid("metadata.name", name, f"must be no more than {_LONGEST_NAME} characters"))
        return faults + check_cronjob_spec(obj["spec"], None)

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the faults of a change."""
        return check_cronjob_spec(new["spec"], old["spec"])

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return what the user should know about a CronJob that is accepted."""
        spec, field = new["spec"]["jobTemplate"]["spec"], "spec.jobTemplate.spec"
        if old is None:
            return name_warnings(new) + spec_warnings(spec, field)
        warnings = [] if same(new["spec"], old["spec"]) else spec_warnings(spec, field)
        if names_zone(new["spec"]):
            # The second `spec.` is upstream's.
            warnings.append(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
                "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
            )
        return warnings
