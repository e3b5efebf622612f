"""Field errors, in the API server's words.

An error has a path, a cause's reason and a message: a label, for most reasons the value, and a detail.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

# Upstream's message for a field that may not change.
IMMUTABLE = "field is immutable"
NON_NEGATIVE = "must be greater than or equal to 0"


class FieldError(NamedTuple):
    """One error found by validation.

    Attributes:
        field: The path, such as `spec.template.spec.containers[0].name`.
        reason: The cause's reason, such as `FieldValueInvalid`.
        message: The words after the path, such as `Invalid value: -1: must be greater than or equal to 0`.
    """

    field: str
    reason: str
    message: str


_encoder = msgspec.json.Encoder(order="sorted")


def rendered(value: object) -> str:
    """Return a value as messages show it: strings quoted, numbers bare, anything else as compact JSON."""
    return _encoder.encode(value).decode()


def invalid(field: str, value: object, detail: str) -> FieldError:
    """Return the error of a value that is not allowed."""
    return FieldError(field, "FieldValueInvalid", f"Invalid value: {rendered(value)}: {detail}")


def invalid_whole(field: str, detail: str) -> FieldError:
    """Return the error of a value that the message does not show."""
    return FieldError(field, "FieldValueInvalid", f"Invalid value: {detail}")


def required(field: str, detail: str = "") -> FieldError:
    """Return the error of a value that is missing."""
    return FieldError(field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value")


def forbidden(field: str, detail: str) -> FieldError:
    """Return the error of a value that may not be set, or not now."""
    return FieldError(field, "FieldValueForbidden", f"Forbidden: {detail}")


def not_supported(field: str, value: object, supported: Iterable[str]) -> FieldError:
    """Return the error of a value outside a fixed choice, which is named in the order given."""
    choice = ", ".join(f'"{one}"' for one in supported)
    return FieldError(
        field, "FieldValueNotSupported", f"Unsupported value: {rendered(value)}: supported values: {choice}"
    )


def duplicate(field: str, value: object) -> FieldError:
    """Return the error of a value that occurs twice."""
    return FieldError(field, "FieldValueDuplicate", f"Duplicate value: {rendered(value)}")


def not_found(field: str, value: object) -> FieldError:
    """Return the error of a reference to nothing."""
    return FieldError(field, "FieldValueNotFound", f"Not found: {rendered(value)}")


def too_long(field: str, limit: int) -> FieldError:
    """Return the error of a text longer than `limit` bytes."""
    return FieldError(field, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")


def too_many(field: str, count: int, limit: int) -> FieldError:
    """Return the error of a list of `count` items where at most `limit` may be."""
    return FieldError(field, "FieldValueTooMany", f"Too many: {count}: must have at most {limit} items")


def non_negative(field: str, value: int | None) -> list[FieldError]:
    """Return the error of a number below zero; None is valid."""
    return [invalid(field, value, NON_NEGATIVE)] if value is not None and value < 0 else []


def one_of(field: str, value: str, supported: tuple[str, ...]) -> list[FieldError]:
    """Return the error of a text outside a fixed choice; empty text is missing."""
    if not value:
        return [required(field)]
    return [] if value in supported else [not_supported(field, value, supported)]
