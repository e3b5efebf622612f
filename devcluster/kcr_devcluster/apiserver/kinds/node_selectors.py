"""Validation of node selectors, those of pods and those of volumes.

Source: kubernetes/pkg/apis/core/validation/validation.go, ValidateNodeSelector, ValidateNodeSelectorTerm,
ValidateNodeSelectorRequirement and ValidateNodeFieldSelectorRequirement.
"""

from kcr_devcluster.apiserver.protocol.field_errors import FieldError, invalid, required
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import NOT_AN_OPERATOR, check_requirement, dns_subdomain


def check_node_selector(selector: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of a node selector, of which one term at least must match."""
    path, terms = f"{field}.nodeSelectorTerms", selector.get("nodeSelectorTerms") or ()
    if not terms:
        return [required(path, "must have at least one node selector term")]
    return [
        error
        for position, term in enumerate(terms)
        for error in check_node_term(term, f"{path}[{position}]", check_values=True)
    ]


def check_node_term(term: Manifest, field: str, *, check_values: bool) -> list[FieldError]:
    """Return the field errors of one term of a node selector.

    Args:
        term: The term.
        field: Its path.
        check_values: Whether values have to be those of labels.
    """
    errors: list[FieldError] = []
    for position, requirement in enumerate(term.get("matchExpressions") or ()):
        place = f"{field}.matchExpressions[{position}]"
        errors += check_requirement(requirement, place, compares=True, check_values=check_values)
    for position, requirement in enumerate(term.get("matchFields") or ()):
        errors += _check_node_field(requirement, f"{field}.matchFields[{position}]")
    return errors


def _check_node_field(requirement: Manifest, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, values = requirement.get("operator", ""), requirement.get("values") or ()
    if operator not in ("In", "NotIn"):
        errors.append(invalid(f"{field}.operator", operator, NOT_AN_OPERATOR))
    elif len(values) != 1:
        words = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(f"{field}.values", words))
    key = requirement.get("key", "")
    if key != "metadata.name":
        return [*errors, invalid(f"{field}.key", key, "not a valid field selector key")]
    return errors + [invalid(f"{field}.values[{position}]", value, reason)
                     for position, value in enumerate(values) for reason in dns_subdomain(value)]  # fmt: skip
