from typing import Any

import pytest

from kcr_devcluster.apiserver.protocol.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    invalid_whole,
    not_found,
    not_supported,
    one_of,
    rendered,
    required,
    too_long,
    too_many,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(None, "null", id="nothing"),
        pytest.param(-1, "-1", id="number"),
        pytest.param(True, "true", id="flag"),
        pytest.param('a "b"', '"a \\"b\\""', id="text"),
        pytest.param("a<\x01\u00a0", '"a<\\x01\\u00a0"', id="odd-text"),
        pytest.param(["a<"], '["a\\u003c"]', id="text-in-a-list"),
        pytest.param(1.0, "1", id="float"),
        pytest.param(1e6, "1e+06", id="large-float"),
        pytest.param({"b": 1, "a": {"d": [], "c": None}}, '{"a":{"c":null,"d":[]},"b":1}', id="map"),
        pytest.param([3, 1], "[3,1]", id="list"),
    ],
)
def test_value_is_rendered_as_upstream_does(value: Any, text: str) -> None:
    assert rendered(value) == text


@pytest.mark.parametrize(
    ("fault", "reason", "message"),
    [
        pytest.param(invalid("f", 1, "why"), "FieldValueInvalid", "Invalid value: 1: why", id="invalid"),
        pytest.param(invalid_whole("f", "why"), "FieldValueInvalid", "Invalid value: why", id="without-value"),
        pytest.param(required("f"), "FieldValueRequired", "Required value", id="required"),
        pytest.param(required("f", "why"), "FieldValueRequired", "Required value: why", id="required-because"),
        pytest.param(forbidden("f", "why"), "FieldValueForbidden", "Forbidden: why", id="forbidden"),
        pytest.param(duplicate("f", "a"), "FieldValueDuplicate", 'Duplicate value: "a"', id="duplicate"),
        pytest.param(not_found("f", "a"), "FieldValueNotFound", 'Not found: "a"', id="not-found"),
        pytest.param(too_long("f", 3), "FieldValueTooLong", "Too long: may not be more than 3 bytes", id="long"),
        pytest.param(too_long("f", 1), "FieldValueTooLong", "Too long: may not be more than 1 byte", id="a-byte"),
        pytest.param(too_many("f", 4, 3), "FieldValueTooMany", "Too many: 4: must have at most 3 items", id="many"),
        pytest.param(too_many("f", 2, 1), "FieldValueTooMany", "Too many: 2: must have at most 1 item", id="one"),
        pytest.param(invalid("f", {}, ""), "FieldValueInvalid", "Invalid value: {}", id="without-detail"),
        pytest.param(
            not_supported("f", "x", ("a", "b")),
            "FieldValueNotSupported",
            'Unsupported value: "x": supported values: "a", "b"',
            id="not-supported",
        ),
    ],
)
def test_fault_has_reason_and_body_of_upstream(fault: FieldError, reason: str, message: str) -> None:
    # BA 2.4
    assert (fault.field, fault.reason, fault.message) == ("f", reason, message)


def test_empty_choice_is_missing_not_unsupported() -> None:
    assert one_of("f", "", ("a",)) == [required("f")]
    assert one_of("f", "a", ("a",)) == []
