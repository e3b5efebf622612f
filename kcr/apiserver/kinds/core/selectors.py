"""Label selectors inside objects: what is wrong with one, and whether it picks a set of labels.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go.
"""

from collections.abc import Mapping

import msgspec

from kcr.api.selectors import LabelSelector, matches
from kcr.apiserver.kinds.core.names import check_labels, label_value, qualified_name
from kcr.apiserver.kinds.field_errors import forbidden, invalid, required
from kcr.apiserver.kinds.strategy import FieldError, Manifest


def check_selector(selector: Manifest, field: str) -> list[FieldError]:
    """Return the faults of a label selector."""
    faults = check_labels(selector.get("matchLabels") or {}, f"{field}.matchLabels")
    for position, requirement in enumerate(selector.get("matchExpressions") or ()):
        faults += _check_requirement(requirement, f"{field}.matchExpressions[{position}]")
    return faults


def _check_requirement(requirement: Manifest, field: str) -> list[FieldError]:
    faults: list[FieldError] = []
    operator, values = requirement.get("operator", ""), requirement.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            faults.append(required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            faults.append(
                forbidden(f"{field}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
            )
    else:
        faults.append(invalid(f"{field}.operator", operator, "not a valid selector operator"))
    key = requirement.get("key", "")
    faults += [invalid(f"{field}.key", key, reason) for reason in qualified_name(key)]
    for position, value in enumerate(values):
        faults += [invalid(f"{field}.values[{position}]", value, reason) for reason in label_value(value)]
    return faults


def selects(selector: Manifest, labels: Mapping[str, str]) -> bool:
    """Return whether a selector without faults picks these labels."""
    return matches(msgspec.convert(selector, LabelSelector), labels)
