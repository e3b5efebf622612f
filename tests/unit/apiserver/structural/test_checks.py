"""Checks of single values: what they refuse, and what they count."""

from collections.abc import Callable
from typing import Any

import pytest

from kcr_devcluster.apiserver.protocol.field_errors import FieldError
from kcr_devcluster.apiserver.structural.checks import Check, enum, number, string

Make = Callable[[dict[str, Any]], Check | None]


@pytest.mark.parametrize(
    ("make", "schema", "valid", "invalid"),
    [
        pytest.param(enum, {"enum": ["a", 1, True]}, "a", "b", id="enum"),
        pytest.param(enum, {"enum": ["a", 1]}, 1, True, id="enum-of-a-number"),
        pytest.param(string, {"maxLength": 2}, "ab", "abc", id="longest"),
        pytest.param(string, {"minLength": 2}, "ab", "a", id="shortest"),
        pytest.param(number, {"maximum": 2}, 2, 3, id="maximum"),
        pytest.param(number, {"maximum": 2, "exclusiveMaximum": True}, 1, 2, id="exclusive-maximum"),
        pytest.param(number, {"minimum": 2}, 2, 1, id="minimum"),
        pytest.param(number, {"multipleOf": 2}, 4, 5, id="multiple"),
    ],
)
def test_valid_value_counts_once_and_another_not(make: Make, schema: dict[str, Any], valid: Any, invalid: Any) -> None:
    # Of several alternatives that fail, the errors of the one with the most valid parts are shown.
    check, errors = make(schema), list[FieldError]()
    assert check is not None
    assert check(valid, "spec.x", None, errors) == 1
    assert errors == []
    assert check(invalid, "spec.x", None, errors) == 0
    assert [error.field for error in errors] == ["spec.x"]
