"""The strategy of CronJobs.

Source: kubernetes/pkg/registry/batch/cronjob/strategy.go; pkg/apis/batch/v1/defaults.go, SetDefaults_CronJob;
pkg/apis/batch/validation/validation.go, validateCronJobSpec and ValidateJobTemplateSpec.
"""

import re

from kcr.api.crontab import CronError, UnknownZoneError, load_zone, parse
from kcr_devcluster.apiserver.kinds.batch.job import name_warnings, spec_warnings
from kcr_devcluster.apiserver.kinds.batch.job_defaults import default_parts
from kcr_devcluster.apiserver.kinds.batch.job_scheduling import keep_scheduling
from kcr_devcluster.apiserver.kinds.batch.job_spec import check_job_spec
from kcr_devcluster.apiserver.kinds.strategy import Strategy
from kcr_devcluster.apiserver.protocol.field_errors import (
    FieldError,
    invalid,
    non_negative,
    not_supported,
    one_of,
    required,
)
from kcr_devcluster.apiserver.protocol.manifests import Manifest, semantic_equal

# The names of its Jobs add a dash and ten digits, and have to be labels.
_LONGEST_NAME = 52


class CronJobStrategy(Strategy):
    """CronJobs: their Jobs get most of their defaults on creation, and the status is not validated.

    Attributes:
        takes_scheduling: Whether their Jobs may say how they are scheduled.
    """

    takes_scheduling = False

    stored_as = ("batch/v1", "CronJob")
    has_generation = True

    def default(self, obj: Manifest) -> None:
        """Fill in the defaults, those of the pods of its Jobs among them."""
        super().default(obj)
        default_parts(obj["spec"]["jobTemplate"]["spec"])

    def prepare_create(self, obj: Manifest) -> None:
        """Empty the status."""
        obj["status"] = {}
        keep_scheduling(obj["spec"]["jobTemplate"]["spec"], None, is_enabled=self.takes_scheduling)

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Keep the status, and how the Jobs are scheduled where that is not to be said."""
        super().prepare_update(new, old)
        stored = old["spec"]["jobTemplate"]["spec"]
        keep_scheduling(new["spec"]["jobTemplate"]["spec"], stored, is_enabled=self.takes_scheduling)

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a new CronJob."""
        name = obj["metadata"].get("name", "")
        errors: list[FieldError] = []
        if len(name) > _LONGEST_NAME:
            errors.append(invalid("metadata.name", name, f"must be no more than {_LONGEST_NAME} characters"))
        return errors + check_cronjob_spec(obj["spec"], None)

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update."""
        return check_cronjob_spec(new["spec"], old["spec"])

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return the warnings about a CronJob that is valid."""
        spec, field = new["spec"]["jobTemplate"]["spec"], "spec.jobTemplate.spec"
        if old is None:
            return name_warnings(new) + spec_warnings(spec, field)
        warnings = [] if semantic_equal(new["spec"], old["spec"]) else spec_warnings(spec, field)
        if names_zone(new["spec"]):
            # The second `spec.` is upstream's.
            warnings.append(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
                "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
            )
        return warnings


_POLICIES = ("Allow", "Forbid", "Replace")
_ZONE_PART = re.compile(r"(?!-|\.\.?$)[A-Za-z.\-_0-9+]{1,14}")
_ZONE_IN_SCHEDULE = "TZ"
# The zone of the server itself, which Go calls so.
_LOCAL = "Local"
_IN_LOCAL_ZONE = re.compile(r"\A((?:CRON_)?TZ=)Local(?= )")


def names_zone(spec: Manifest) -> bool:
    """Return whether a schedule contains its time zone, as old ones do."""
    return _ZONE_IN_SCHEDULE in spec.get("schedule", "")


def check_cronjob_spec(spec: Manifest, stored: Manifest | None) -> list[FieldError]:
    """Return the field errors of a spec.

    Args:
        spec: The spec, defaulted.
        stored: The spec it is to replace, None for a new CronJob. A CronJob that was stored with a zone in its
            schedule, or with a time zone that is unknown by now, may keep it.
    """
    errors = _check_schedule(spec, may_name_zone=stored is not None and names_zone(stored))
    errors += non_negative("spec.startingDeadlineSeconds", spec.get("startingDeadlineSeconds"))
    if stored is None or spec.get("timeZone") != stored.get("timeZone"):
        errors += _check_zone(spec.get("timeZone"))
    errors += one_of("spec.concurrencyPolicy", spec["concurrencyPolicy"], _POLICIES)
    errors += _check_template(spec["jobTemplate"]["spec"], "spec.jobTemplate.spec")
    for name in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        errors += non_negative(f"spec.{name}", spec.get(name))
    return errors


def _check_schedule(spec: Manifest, *, may_name_zone: bool) -> list[FieldError]:
    field, schedule = "spec.schedule", spec.get("schedule", "")
    if not schedule:
        return [required(field)]
    errors: list[FieldError] = []
    try:
        parse(_IN_LOCAL_ZONE.sub(r"\1UTC", schedule))
    except CronError as error:
        errors.append(invalid(field, schedule, str(error)))
    if names_zone(spec):
        if not may_name_zone:
            words = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            errors.append(invalid(field, schedule, words))
        elif spec.get("timeZone") is not None:
            words = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
            errors.append(invalid(field, schedule, words))
    return errors


def _check_zone(zone: str | None) -> list[FieldError]:
    field = "spec.timeZone"
    if zone is None:
        return []
    if not zone:
        return [invalid(field, zone, "timeZone must be nil or non-empty string")]
    if not all(_ZONE_PART.fullmatch(part) for part in zone.split("/")):
        return [invalid(field, zone, f"unknown time zone {zone}")]
    errors: list[FieldError] = []
    if zone.lower() == _LOCAL.lower():
        words = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        errors.append(invalid(field, zone, words))
    if zone != _LOCAL:
        try:
            load_zone(zone)
        except UnknownZoneError as error:
            errors.append(invalid(field, zone, str(error)))
    return errors


def _check_template(job: Manifest, field: str) -> list[FieldError]:
    errors = check_job_spec(job, field)
    if job.get("selector") is not None:
        errors.append(invalid(f"{field}.selector", job["selector"], "`selector` will be auto-generated"))
    if job.get("manualSelector"):
        errors.append(not_supported(f"{field}.manualSelector", True, ("nil", "false")))
    return errors
