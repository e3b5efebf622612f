"""Checks of scalars: strings, formats, numbers, enumerations; and the messages that all checks share.

Source: k8s.io/kube-openapi/pkg/validation/{validate/{validator,values,formats},errors/schema}.go.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from kcr_devcluster.apiserver.protocol.field_errors import (
    FieldError,
    as_json,
    invalid,
    not_supported,
    rendered,
    too_long,
)
from kcr_devcluster.apiserver.schema.extensions import Schema
from kcr_devcluster.apiserver.schema.formats import INTEGER_BITS, string_format
from kcr_devcluster.apiserver.schema.patterns import compile_matcher

# A check adds the errors of a value at a path, and returns how many of its parts are valid: of several alternatives
# that fail, the errors of the best one are shown. It gets the value of before, or `ABSENT`.
Check = Callable[[Any, str, Any, list[FieldError]], int]

# A path that is empty is shown so: it is Go's nil.
ROOT = "<nil>"


def go_number(number: float) -> str:
    """Return a number as Go's `%v` writes it."""
    if isinstance(number, int) or (number == math.floor(number) and abs(number) < 1e21):
        return str(int(number))
    text = repr(float(number))
    if 1e-4 <= abs(number) < 1e21:
        return text
    mantissa, _, exponent = text.partition("e")
    sign = "-" if exponent.startswith("-") else "+"
    return f"{mantissa.removesuffix('.0')}e{sign}{exponent.lstrip('+-').zfill(2)}"


def whole(message: str) -> FieldError:
    """Return an error that names no field, as that of several schemas together."""
    return invalid(ROOT, "", message)


def in_body(path: str, value: Any, rule: str) -> FieldError:
    """Return the error of a value that breaks a rule."""
    return invalid(path or ROOT, value, f"{path} in body {rule}")


def wrong_type(path: str, wanted: str, found: str) -> FieldError:
    """Return the error of a value whose type, `found`, is not the one wanted."""
    words = f"{path} in body must be of type {wanted}: {rendered(found)}"
    return FieldError(path or ROOT, "FieldValueTypeInvalid", "Invalid value", found, words)


def enum(schema: Schema) -> Check | None:
    """Return the check of values that are listed; true and 1 are two."""
    values = schema.get("enum")
    if not values:
        return None
    texts = {value for value in values if isinstance(value, str)}
    others = {as_json(value) for value in values if not isinstance(value, str)}

    def check(value: Any, path: str, old: Any, errors: list[FieldError]) -> int:
        if value in texts if isinstance(value, str) else as_json(value) in others:
            return 1
        errors.append(not_in_enum(path, value, values))
        return 0

    return check


def not_in_enum(path: str, value: Any, values: Sequence[Any]) -> FieldError:
    """Return the error of a value that is not listed."""
    return not_supported(path or ROOT, value, [one if isinstance(one, str) else as_json(one) for one in values])


def string(schema: Schema) -> Check | None:
    """Return the check of the length and pattern of strings."""
    longest, shortest, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if longest is None and shortest is None and not pattern:
        return None
    matches = compile_matcher(pattern).search if pattern else None

    def check(value: Any, path: str, old: Any, errors: list[FieldError]) -> int:
        if type(value) is not str:
            return 0
        if longest is not None and len(value) > longest:
            errors.append(too_long(path, longest))
        elif shortest is not None and len(value) < shortest:
            errors.append(in_body(path, value, f"should be at least {shortest} chars long"))
        elif matches is not None and not matches(value):
            errors.append(in_body(path, value, f"should match '{pattern}'"))
        else:
            return 1
        return 0

    return check


def text_format(schema: Schema) -> Check | None:
    """Return the check of the format of strings."""
    name = schema.get("format")
    holds = string_format(name) if name and schema.get("type", "string") == "string" else None
    if holds is None:
        return None

    def check(value: Any, path: str, old: Any, errors: list[FieldError]) -> int:
        if type(value) is not str or holds(value):
            return 1
        words = f"{path} in body must be of type {name}: {rendered(value)}"
        errors.append(FieldError(path, "FieldValueTypeInvalid", "Invalid value", value, words))
        return 0

    return check


def number(schema: Schema) -> Check | None:
    """Return the check of the range of numbers."""
    rules = [
        rule for rule in (_range(schema), _multiple(schema), _minimum(schema), _maximum(schema)) if rule is not None
    ]
    if not rules:
        return None

    def check(value: Any, path: str, old: Any, errors: list[FieldError]) -> int:
        if type(value) not in (int, float):
            return 0
        found = [error for rule in rules if (error := rule(value, path)) is not None]
        errors += found
        return not found

    return check


_NumberRule = Callable[[Any, str], FieldError | None]


def _range(schema: Schema) -> _NumberRule | None:
    name = schema.get("format", "")
    if schema.get("type") != "integer":
        return None
    limit, shown = 1 << (INTEGER_BITS.get(name, 64) - 1), f"format {name}" if name in INTEGER_BITS else ""

    def rule(value: Any, path: str) -> FieldError | None:
        if -limit <= value < limit and (type(value) is int or value == math.floor(value)):
            return None
        said = f"with {shown} in {path}" if shown else f"(default format) in {path}"
        return whole(f"Checked value must be of type integer {said}")

    return rule


def _multiple(schema: Schema) -> _NumberRule | None:
    factor = schema.get("multipleOf")
    if factor is None:
        return None

    def rule(value: Any, path: str) -> FieldError | None:
        if factor <= 0:
            return invalid(path, factor, f"factor MultipleOf declared for {path} must be positive: {go_number(factor)}")
        quotient = value / factor
        if quotient == math.floor(quotient):
            return None
        return in_body(path, value, f"should be a multiple of {go_number(factor)}")

    return rule


def _minimum(schema: Schema) -> _NumberRule | None:
    bound, exclusive = schema.get("minimum"), bool(schema.get("exclusiveMinimum"))
    if bound is None:
        return None
    words = "greater than" if exclusive else "greater than or equal to"

    def rule(value: Any, path: str) -> FieldError | None:
        if value > bound or (value == bound and not exclusive):
            return None
        return in_body(path, value, f"should be {words} {go_number(bound)}")

    return rule


def _maximum(schema: Schema) -> _NumberRule | None:
    bound, exclusive = schema.get("maximum"), bool(schema.get("exclusiveMaximum"))
    if bound is None:
        return None
    words = "less than" if exclusive else "less than or equal to"

    def rule(value: Any, path: str) -> FieldError | None:
        if value < bound or (value == bound and not exclusive):
            return None
        return in_body(path, value, f"should be {words} {go_number(bound)}")

    return rule
