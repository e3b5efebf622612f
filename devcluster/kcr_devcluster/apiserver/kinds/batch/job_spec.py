"""Validation of the spec of a Job.

Source: kubernetes/pkg/apis/batch/validation/validation.go, ValidateJob and validateJobSpec.
"""

from kcr_devcluster.apiserver.kinds.batch.job_defaults import check_generated_selector
from kcr_devcluster.apiserver.kinds.batch.job_policies import check_failure_policy, check_success_policy
from kcr_devcluster.apiserver.kinds.batch.job_scheduling import check_scheduling
from kcr_devcluster.apiserver.kinds.pods.validation.spec import check_selector_of, check_template
from kcr_devcluster.apiserver.protocol.field_errors import (
    FieldError,
    invalid,
    non_negative,
    not_supported,
    required,
    too_long,
)
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import dns_label, domain_prefixed_path

_COUNTS = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
    "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip
_MODES = ("NonIndexed", "Indexed")
_RESTARTS = ("OnFailure", "Never")
_MOST_INDEXES = 100_000
_MOST_AT_SCALE = 10_000
_MANAGER_BYTES = 63


def check_job(job: Manifest, *, prefixed_labels: bool = True) -> list[FieldError]:
    """Return the field errors of a Job apart from those of its metadata.

    Args:
        job: The Job, defaulted and prepared.
        prefixed_labels: Whether the prefixed generated labels are demanded.
    """
    spec = job["spec"]
    errors = check_generated_selector(job, prefixed=prefixed_labels)
    errors += check_job_spec(spec, "spec")
    errors += check_selector_of(spec, "spec")
    completions = spec.get("completions")
    if spec.get("completionMode") == "Indexed" and completions is not None and completions > 0:
        name = job["metadata"].get("name", "")
        last = f"{name}-{completions - 1}"
        words = f"will not able to create pod with invalid DNS label: {last}"
        errors += [invalid("metadata.name", name, words) for _ in dns_label(last)[:1]]
    return errors


def check_job_spec(spec: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of a spec apart from its selector."""
    errors: list[FieldError] = []
    for name in _COUNTS:
        errors += non_negative(f"{field}.{name}", spec.get(name))
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        errors.append(required(f"{field}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    errors += _check_manager(spec.get("managedBy"), f"{field}.managedBy")
    errors += _check_mode(spec, field)
    if spec.get("podFailurePolicy") is not None:
        errors += check_failure_policy(spec, field)
    if spec.get("successPolicy") is not None:
        if spec.get("completionMode") == "Indexed":
            errors += check_success_policy(spec, field)
        else:
            errors.append(invalid(f"{field}.successPolicy", spec["successPolicy"], "requires indexed completion mode"))
    errors += _check_replacement(spec, f"{field}.podReplacementPolicy")
    errors += check_scheduling(spec, field)
    errors += check_template(spec["template"], f"{field}.template")
    return errors + _check_restart(spec, f"{field}.template.spec.restartPolicy")


def _check_manager(manager: str | None, field: str) -> list[FieldError]:
    if manager is None:
        return []
    if not manager:
        return [required(field)]
    errors = [invalid(field, part, reason) for part, reason in domain_prefixed_path(manager)]
    if len(manager.encode()) > _MANAGER_BYTES:
        errors.append(too_long(field, _MANAGER_BYTES))
    return errors


def _check_mode(spec: Manifest, field: str) -> list[FieldError]:
    mode = spec.get("completionMode", "NonIndexed")
    if mode == "Indexed":
        return _check_indexed(spec, field)
    errors = [] if mode in _MODES else [not_supported(f"{field}.completionMode", mode, _MODES)]
    if mode == "NonIndexed":
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(name) is not None:
                errors.append(invalid(f"{field}.{name}", spec[name], "requires indexed completion mode"))
    return errors


def _check_indexed(spec: Manifest, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    completions, most_failed = spec.get("completions"), spec.get("maxFailedIndexes")
    if completions is None:
        errors.append(required(f"{field}.completions", "when completion mode is Indexed"))
    # The Job of a CronJob gets its defield errors when it is made.
    parallelism = spec.get("parallelism") or 0
    if parallelism > _MOST_INDEXES:
        words = f"must be less than or equal to {_MOST_INDEXES} when completion mode is Indexed"
        errors.append(invalid(f"{field}.parallelism", parallelism, words))
    if most_failed is not None:
        name = f"{field}.maxFailedIndexes"
        if completions is not None and most_failed > completions:
            errors.append(invalid(name, most_failed, "must be less than or equal to completions"))
        if most_failed > _MOST_INDEXES:
            errors.append(invalid(name, most_failed, f"must be less than or equal to {_MOST_INDEXES}"))
    if completions is not None and completions > _MOST_INDEXES and spec.get("backoffLimitPerIndex") is not None:
        errors += _check_at_scale(spec, field)
    return errors


def _check_at_scale(spec: Manifest, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if spec.get("maxFailedIndexes") is None:
        words = f"must be specified when completions is above {_MOST_INDEXES}"
        errors.append(required(f"{field}.maxFailedIndexes", words))
    for name in ("parallelism", "maxFailedIndexes"):
        value = spec.get(name)
        if value is not None and value > _MOST_AT_SCALE:
            words = (
                f"must be less than or equal to {_MOST_AT_SCALE} when completions are above {_MOST_INDEXES} "
                "and used with backoff limit per index"
            )
            errors.append(invalid(f"{field}.{name}", value, words))
    return errors


def _check_replacement(spec: Manifest, field: str) -> list[FieldError]:
    policy = spec.get("podReplacementPolicy")
    choice = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
    return [] if policy is None or policy in choice else [not_supported(field, policy, choice)]


def _check_restart(spec: Manifest, field: str) -> list[FieldError]:
    policy = spec["template"]["spec"].get("restartPolicy", "")
    if policy in ("", "Always"):
        return [required(field, 'valid values: "OnFailure", "Never"')]
    if policy not in _RESTARTS:
        return [not_supported(field, policy, _RESTARTS)]
    if policy != "Never" and spec.get("podFailurePolicy") is not None:
        return [invalid(field, policy, 'only "Never" is supported when podFailurePolicy is specified')]
    return []
