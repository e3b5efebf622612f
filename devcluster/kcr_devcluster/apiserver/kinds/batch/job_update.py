"""Validation of updates of a Job: the fields that may change.

Source: kubernetes/pkg/apis/batch/validation/validation.go, ValidateJobSpecUpdate;
pkg/registry/batch/job/strategy.go, validationOptionsForJob.
"""

from copy import deepcopy

from kcr_devcluster.apiserver.kinds.batch.job_scheduling import check_scheduling_update
from kcr_devcluster.apiserver.kinds.batch.job_spec import check_job_spec
from kcr_devcluster.apiserver.kinds.pods.validation.spec import check_selector_of
from kcr_devcluster.apiserver.protocol.field_errors import IMMUTABLE, FieldError, invalid
from kcr_devcluster.apiserver.protocol.manifests import Manifest, semantic_equal

_LATE_FIXED = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_SCHEDULING = ("nodeSelector", "tolerations", "schedulingGates")


def check_job_update(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return the field errors of an update, those of the new spec among them."""
    spec, stored = new["spec"], old["spec"]
    # Upstream validates the spec once as a Job and once as a change: every error of it is reported twice.
    errors = [*check_job_spec(spec, "spec"), *check_selector_of(spec, "spec")]
    errors += _check_completions(spec, stored)
    errors += _check_fixed("selector", spec, stored)
    errors += _check_template(spec["template"], old)
    for name in _LATE_FIXED:
        errors += _check_fixed(name, spec, stored)
    return errors + check_scheduling_update(spec, stored)


def _check_fixed(name: str, spec: Manifest, stored: Manifest) -> list[FieldError]:
    value = spec.get(name)
    return [] if semantic_equal(value, stored.get(name)) else [invalid(f"spec.{name}", value, IMMUTABLE)]


def _check_completions(spec: Manifest, stored: Manifest) -> list[FieldError]:
    value = spec.get("completions")
    if spec.get("completionMode") != "Indexed":
        return _check_fixed("completions", spec, stored)
    if value is None or value == stored.get("completions") or value == spec["parallelism"]:
        return []
    return [invalid("spec.completions", value, "can only be modified in tandem with spec.parallelism")]


def _check_template(template: Manifest, old: Manifest) -> list[FieldError]:
    stored = old["spec"]["template"]
    if semantic_equal(template, stored):
        return []
    if not _template_may_change(old):
        return [invalid("spec.template", template, IMMUTABLE)]
    allowed = _with_directives(stored["spec"], template["spec"])
    return (
        []
        if semantic_equal(template["spec"], allowed)
        else [invalid("spec.template.spec", template["spec"], IMMUTABLE)]
    )


def _template_may_change(old: Manifest) -> bool:
    status = old.get("status") or {}
    if old["spec"].get("suspend") is not True or status.get("active"):
        return False
    return status.get("startTime") is None or any(
        condition.get("type") == "Suspended" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )


def _with_directives(stored: Manifest, wanted: Manifest) -> Manifest:
    """Return the stored pod spec with those parts of the wanted one that a suspended Job may change."""
    allowed = deepcopy(stored)
    for name in _SCHEDULING:
        _take(allowed, wanted, name)
    _take_node_affinity(allowed, wanted)
    for kind in ("initContainers", "containers"):
        before, after = allowed.get(kind) or [], wanted.get(kind) or []
        if [one.get("name") for one in before] == [one.get("name") for one in after]:
            for mine, theirs in zip(before, after, strict=True):
                _take(mine, theirs, "resources")
    return allowed


def _take(target: Manifest, source: Manifest, name: str) -> None:
    if source.get(name) is None:
        target.pop(name, None)
    else:
        target[name] = source[name]


def _take_node_affinity(allowed: Manifest, wanted: Manifest) -> None:
    before, after = allowed.get("affinity"), wanted.get("affinity")
    if after is None:
        # Removing the affinity is allowed as long as it has nothing but a node affinity.
        if before is not None and not before.get("podAffinity") and not before.get("podAntiAffinity"):
            del allowed["affinity"]
        return
    _take(allowed.setdefault("affinity", {}), after, "nodeAffinity")
