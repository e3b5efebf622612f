"""Validation of `spec.podFailurePolicy` and `spec.successPolicy`, and of the sets of indexes in the latter.

Source: kubernetes/pkg/apis/batch/validation/validation.go, validatePodFailurePolicy, validateSuccessPolicy and
validateIndexesFormat.
"""

from functools import lru_cache

from kcr.api.durations import parse_int
from kcr.api.indexset import IndexSet
from kcr_devcluster.apiserver.kinds.pods.defaults import containers_of
from kcr_devcluster.apiserver.protocol.field_errors import (
    FieldError,
    duplicate,
    invalid,
    invalid_whole,
    non_negative,
    not_supported,
    required,
    too_long,
    too_many,
)
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import qualified_name

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_MOST_RULES, _MOST_VALUES, _MOST_PATTERNS = 20, 255, 20


def check_failure_policy(spec: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of a Job's pod failure policy, which must be present."""
    field = f"{field}.podFailurePolicy.rules"
    rules = spec["podFailurePolicy"].get("rules") or ()
    errors = [too_many(field, len(rules), _MOST_RULES)] if len(rules) > _MOST_RULES else []
    for position, rule in enumerate(rules):
        errors += _check_failure_rule(spec, rule, f"{field}[{position}]")
    return errors


def _check_failure_rule(spec: Manifest, rule: Manifest, field: str) -> list[FieldError]:
    errors = _check_action(spec, rule.get("action", ""), f"{field}.action")
    codes, patterns = rule.get("onExitCodes"), rule.get("onPodConditions") or ()
    if codes is not None:
        errors += _check_exit_codes(spec, codes, f"{field}.onExitCodes")
    if patterns:
        errors += _check_patterns(patterns, f"{field}.onPodConditions")
    if codes is not None and patterns:
        errors.append(invalid_whole(field, "specifying both OnExitCodes and OnPodConditions is not supported"))
    if codes is None and not patterns:
        errors.append(invalid_whole(field, "specifying one of OnExitCodes and OnPodConditions is required"))
    return errors


def _valid_values(values: tuple[str, ...]) -> str:
    quoted = " ".join(f'"{value}"' for value in values)
    return f"valid values: [{quoted}]"


def _check_action(spec: Manifest, action: str, field: str) -> list[FieldError]:
    if not action:
        return [required(field, _valid_values(_ACTIONS))]
    if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        return [invalid(field, action, "requires the backoffLimitPerIndex to be set")]
    return [] if action in _ACTIONS else [not_supported(field, action, _ACTIONS)]


def _check_exit_codes(spec: Manifest, codes: Manifest, field: str) -> list[FieldError]:
    operator, name = codes.get("operator", ""), codes.get("containerName")
    errors: list[FieldError] = []
    if not operator:
        errors.append(required(f"{field}.operator", _valid_values(_OPERATORS)))
    elif operator not in _OPERATORS:
        errors.append(not_supported(f"{field}.operator", operator, _OPERATORS))
    if name is not None and all(name != one.get("name") for one in containers_of(spec["template"]["spec"])):
        words = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(f"{field}.containerName", name, words))
    return errors + _check_values(codes.get("values"), operator, f"{field}.values")


def _check_values(values: list[int] | None, operator: str, field: str) -> list[FieldError]:
    if not values:
        return [invalid(field, values, "at least one value is required")]
    errors = [too_many(field, len(values), _MOST_VALUES)] if len(values) > _MOST_VALUES else []
    ordered = True
    seen: set[int] = set()
    for position, value in enumerate(values):
        if operator == "In" and value == 0:
            errors.append(invalid(f"{field}[{position}]", value, "must not be 0 for the In operator"))
        if value in seen:
            errors.append(duplicate(f"{field}[{position}]", value))
        seen.add(value)
        ordered = ordered and (position == 0 or values[position - 1] <= value)
    if not ordered:
        errors.append(invalid(field, values, "must be ordered"))
    return errors


def _check_patterns(patterns: list[Manifest], field: str) -> list[FieldError]:
    errors = [too_many(field, len(patterns), _MOST_PATTERNS)] if len(patterns) > _MOST_PATTERNS else []
    for position, pattern in enumerate(patterns):
        kind, status = pattern.get("type", ""), pattern.get("status", "")
        errors += [invalid(f"{field}[{position}].type", kind, reason) for reason in qualified_name(kind)]
        if not status:
            errors.append(required(f"{field}[{position}].status", _valid_values(_STATUSES)))
        elif status not in _STATUSES:
            errors.append(not_supported(f"{field}[{position}].status", status, _STATUSES))
    return errors


_MOST_BYTES = 65536


def check_success_policy(spec: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of an Indexed Job's success policy, which must be present."""
    field = f"{field}.successPolicy.rules"
    rules = spec["successPolicy"].get("rules") or ()
    if not rules:
        return [required(field, "at least one rules must be specified when the successPolicy is specified")]
    errors = [too_many(field, len(rules), _MOST_RULES)] if len(rules) > _MOST_RULES else []
    # Upstream falls over a Job without completions; that these are missing is said elsewhere.
    completions = spec.get("completions")
    if completions is not None:
        for position, rule in enumerate(rules):
            errors += _check_success_rule(rule, completions, f"{field}[{position}]")
    return errors


def _check_success_rule(rule: Manifest, completions: int, field: str) -> list[FieldError]:
    wanted, text = rule.get("succeededCount"), rule.get("succeededIndexes")
    if wanted is None and text is None:
        return [required(field, "at least one of succeededCount or succeededIndexes must be specified")]
    errors: list[FieldError] = []
    named: int | None = None
    if text is not None:
        if len(text) > _MOST_BYTES:
            errors.append(too_long(f"{field}.succeededIndexes", _MOST_BYTES))
        try:
            named = len(parse_indexes(text, completions))
        except ValueError as error:
            errors.append(invalid(f"{field}.succeededIndexes", text, f"error parsing succeededIndexes: {error}"))
    if wanted is None:
        return errors
    errors += non_negative(f"{field}.succeededCount", wanted)
    if wanted > completions:
        words = f"must be less than or equal to {completions} (the number of specified completions)"
        errors.append(invalid(f"{field}.succeededCount", wanted, words))
    if named is not None and wanted > named:
        words = f"must be less than or equal to {named} (the number of indexes in the specified succeededIndexes field)"
        errors.append(invalid(f"{field}.succeededCount", wanted, words))
    return errors


@lru_cache(256)
def parse_indexes(text: str, completions: int) -> IndexSet:
    """Return the set that a text means; `""` is the empty one.

    Args:
        text: Items `a` or `a-b`, rising throughout.
        completions: Every index must be lower.

    Raises:
        ValueError: The text is malformed; the message is the server's.
    """
    last: int | None = None
    for interval in read_intervals(text, completions):
        if isinstance(interval, ValueError):
            raise interval
        if last is not None and last >= interval[0]:
            raise _falling(last, interval[0])
        last = interval[1]
    return IndexSet.parse(text, completions)


Interval = tuple[int, int]


@lru_cache(256)
def read_intervals(text: str, completions: int) -> tuple[Interval | ValueError, ...]:
    """Return the intervals that a text names, in its order, each as its first and last index, or why it is none."""
    return tuple(_interval(fragment, completions) for fragment in text.split(",")) if text else ()


def _interval(fragment: str, completions: int) -> Interval | ValueError:
    bounds = fragment.split("-")
    if len(bounds) > 2:
        return ValueError(
            f'the fragment "{fragment}" violates the requirement that an index interval can have at most two '
            "parts separated by '-'"
        )
    indexes = []
    for bound in bounds:
        index = parse_int(bound)
        if index is None:
            return ValueError(f'cannot convert string to integer for index: "{bound}"')
        if index >= completions:
            return ValueError(f'too large index: "{bound}"')
        indexes.append(index)
    first, last = indexes[0], indexes[-1]
    return _falling(first, last) if len(indexes) > 1 and first >= last else (first, last)


def _falling(previous: int, current: int) -> ValueError:
    return ValueError(f"non-increasing order, previous: {previous}, current: {current}")
