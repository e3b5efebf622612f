"""Field errors, in the API server's words.

An error has a path, a cause's reason and a message: a label, for most reasons the value, and a detail.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from kcr_devcluster.apiserver.protocol.gojson import escaped
from kcr_devcluster.apiserver.protocol.gotexts import general, quoted

# Upstream's message for a field that may not change.
IMMUTABLE = "field is immutable"
NON_NEGATIVE = "must be greater than or equal to 0"


# The value of an error whose message shows none.
_NO_VALUE: Any = object()


class FieldError(NamedTuple):
    """One error found by validation.

    Attributes:
        field: The path, such as `spec.template.spec.containers[0].name`.
        reason: The cause's reason, such as `FieldValueInvalid`.
        label: How the message begins, such as `Invalid value`.
        value: The value that the message shows.
        detail: How the message ends, `""` for nothing.
    """

    field: str
    reason: str
    label: str
    value: Any = _NO_VALUE
    detail: str = ""

    @property
    def message(self) -> str:
        """The words after the path, such as `Invalid value: -1: must be greater than or equal to 0`."""
        shown = "" if self.value is _NO_VALUE else f": {rendered(self.value)}"
        return f"{self.label}{shown}: {self.detail}" if self.detail else f"{self.label}{shown}"


_sorted = msgspec.json.Encoder(order="sorted")


def rendered(value: object) -> str:
    """Return a value as messages show it: strings and numbers as Go writes them, anything else as compact JSON."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, float):
        return general(value)
    return escaped(_sorted.encode(value)).decode()


def as_json(value: object) -> str:
    """Return the JSON of a value, with the members of objects in the order of their names."""
    return _sorted.encode(value).decode()


def invalid(field: str, value: object, detail: str) -> FieldError:
    """Return the error of a value that is not allowed."""
    return FieldError(field, "FieldValueInvalid", "Invalid value", value, detail)


def invalid_whole(field: str, detail: str) -> FieldError:
    """Return the error of a value that the message does not show."""
    return FieldError(field, "FieldValueInvalid", "Invalid value", detail=detail)


def required(field: str, detail: str = "") -> FieldError:
    """Return the error of a value that is missing."""
    return FieldError(field, "FieldValueRequired", "Required value", detail=detail)


def internal_error(field: str, detail: str) -> FieldError:
    """Return the error of a value that could not be checked."""
    return FieldError(field, "InternalError", "Internal error", detail=detail)


def forbidden(field: str, detail: str) -> FieldError:
    """Return the error of a value that may not be set, or not now."""
    return FieldError(field, "FieldValueForbidden", "Forbidden", detail=detail)


def not_supported(field: str, value: object, supported: Iterable[str]) -> FieldError:
    """Return the error of a value outside a fixed choice, which is named in the order given."""
    choice = ", ".join(map(quoted, supported))
    return FieldError(field, "FieldValueNotSupported", "Unsupported value", value, f"supported values: {choice}")


def duplicate(field: str, value: object) -> FieldError:
    """Return the error of a value that occurs twice."""
    return FieldError(field, "FieldValueDuplicate", "Duplicate value", value)


def not_found(field: str, value: object) -> FieldError:
    """Return the error of a reference to nothing."""
    return FieldError(field, "FieldValueNotFound", "Not found", value)


def too_long(field: str, limit: int) -> FieldError:
    """Return the error of a text longer than `limit` bytes."""
    words = f"may not be more than {limit} {_several(limit, 'byte')}"
    return FieldError(field, "FieldValueTooLong", "Too long", detail=words)


def too_many(field: str, count: int, limit: int) -> FieldError:
    """Return the error of a list of `count` items where at most `limit` may be."""
    words = f"must have at most {limit} {_several(limit, 'item')}"
    return FieldError(field, "FieldValueTooMany", "Too many", count, words)


def _several(count: int, what: str) -> str:
    return what if count == 1 else f"{what}s"


def non_negative(field: str, value: int | None) -> list[FieldError]:
    """Return the error of a number below zero; None is valid."""
    return [invalid(field, value, NON_NEGATIVE)] if value is not None and value < 0 else []


def one_of(field: str, value: str, supported: tuple[str, ...]) -> list[FieldError]:
    """Return the error of a text outside a fixed choice; empty text is missing."""
    if not value:
        return [required(field)]
    return [] if value in supported else [not_supported(field, value, supported)]
