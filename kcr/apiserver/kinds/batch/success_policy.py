"""What may stand in `spec.successPolicy`.

Source: kubernetes/pkg/apis/batch/validation/validation.go, validateSuccessPolicy.
"""

from kcr.apiserver.kinds.batch.indexes import parse_indexes
from kcr.apiserver.kinds.field_errors import invalid, non_negative, required, too_long, too_many
from kcr.apiserver.kinds.strategy import FieldError, Manifest

_MOST_RULES, _MOST_BYTES = 20, 65536


def check_success_policy(spec: Manifest, field: str) -> list[FieldError]:
    """Return the faults of an Indexed Job's success policy, which is there."""
    field = f"{field}.successPolicy.rules"
    rules = spec["successPolicy"].get("rules") or ()
    if not rules:
        return [required(field, "at least one rules must be specified when the successPolicy is specified")]
    faults = [too_many(field, len(rules), _MOST_RULES)] if len(rules) > _MOST_RULES else []
    # Upstream falls over a Job without completions; that these are missing is said elsewhere.
    completions = spec.get("completions")
    if completions is not None:
        for position, rule in enumerate(rules):
            faults += _check_rule(rule, completions, f"{field}[{position}]")
    return faults


def _check_rule(rule: Manifest, completions: int, field: str) -> list[FieldError]:
    wanted, text = rule.get("succeededCount"), rule.get("succeededIndexes")
    if wanted is None and text is None:
        return [required(field, "at least one of succeededCount or succeededIndexes must be specified")]
    faults: list[FieldError] = []
    named: int | None = None
    if text is not None:
        if len(text) > _MOST_BYTES:
            faults.append(too_long(f"{field}.succeededIndexes", _MOST_BYTES))
        try:
            named = len(parse_indexes(text, completions))
        except ValueError as error:
            faults.append(invalid(f"{field}.succeededIndexes", text, f"error parsing succeededIndexes: {error}"))
    if wanted is None:
        return faults
    faults += non_negative(f"{field}.succeededCount", wanted)
    if wanted > completions:
        words = f"must be less than or equal to {completions} (the number of specified completions)"
        faults.append(invalid(f"{field}.succeededCount", wanted, words))
    if named is not None and wanted > named:
        words = f"must be less than or equal to {named} (the number of indexes in the specified succeededIndexes field)"
        faults.append(invalid(f"{field}.succeededCount", wanted, words))
    return faults
