"""Validation of conditions of the common type, `metav1.Condition`.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go, ValidateConditions.
"""

import re
from collections.abc import Sequence

from kcr_devcluster.apiserver.protocol.field_errors import (
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
)
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import qualified_name

_STATUSES = ("False", "True", "Unknown")
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_MESSAGE = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    f"'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '{_REASON.pattern}')"
)
_LONGEST_REASON, _LONGEST_MESSAGE = 1024, 32 * 1024


def check_conditions(conditions: Sequence[Manifest], field: str) -> list[FieldError]:
    """Return the field errors of a list of conditions, one for each type."""
    errors: list[FieldError] = []
    types: set[str] = set()
    for position, condition in enumerate(conditions):
        kind = condition.get("type", "")
        if kind in types:
            errors.append(duplicate(f"{field}[{position}].type", kind))
        types.add(kind)
        errors += _check_condition(condition, f"{field}[{position}]")
    return errors


def _check_condition(condition: Manifest, field: str) -> list[FieldError]:
    kind, status = condition.get("type", ""), condition.get("status", "")
    errors = [invalid(f"{field}.type", kind, reason) for reason in qualified_name(kind)]
    if status not in _STATUSES:
        errors.append(not_supported(f"{field}.status", status, _STATUSES))
    if (generation := condition.get("observedGeneration", 0)) < 0:
        errors.append(invalid(f"{field}.observedGeneration", generation, "must be greater than or equal to zero"))
    if not condition.get("lastTransitionTime"):
        errors.append(required(f"{field}.lastTransitionTime"))
    if not (reason := condition.get("reason", "")):
        errors.append(required(f"{field}.reason"))
    elif not _REASON.fullmatch(reason):
        errors.append(invalid(f"{field}.reason", reason, _REASON_MESSAGE))
    if len(reason) > _LONGEST_REASON:
        errors.append(too_long(f"{field}.reason", _LONGEST_REASON))
    if len(condition.get("message", "")) > _LONGEST_MESSAGE:
        errors.append(too_long(f"{field}.message", _LONGEST_MESSAGE))
    return errors
