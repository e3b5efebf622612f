"""Rules of schemas that are large."""

from typing import Any

import pytest

from kcr_devcluster.apiserver.cel.syntax import CompilationError
from kcr_devcluster.apiserver.schema.shape import ABSENT
from kcr_devcluster.apiserver.structural.rules import compile_rules, definition_errors

RULES = "x-kubernetes-validations"
DEEP: dict[str, Any] = {"type": "object", "properties": {
    "plain": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
    "ruled": {"type": "array", "items": {
        "type": "object", "properties": {"a": {"type": "string", RULES: [{"rule": "self.bad"}]}},
    }},
}}  # fmt: skip


def test_rules_deep_in_a_schema_are_checked() -> None:
    (error,) = definition_errors(DEEP, "schema")
    assert error.field == f"schema.properties[ruled].items.properties[a].{RULES}[0].rule"
    assert definition_errors(DEEP["properties"]["plain"], "schema") == []


def test_rules_are_compiled_for_the_first_value_that_has_some() -> None:
    """A definition may have hundreds, and an object meets few."""
    check = compile_rules(DEEP)
    assert check is not None
    assert check({"plain": [{"a": "x"}], "ruled": []}, ABSENT).errors == []
    with pytest.raises(CompilationError, match="type 'string' does not support field selection"):
        check({"ruled": [{"a": "x"}]}, ABSENT)
    assert compile_rules(DEEP["properties"]["plain"]) is None


@pytest.mark.parametrize(
    ("field", "rule"),
    [
        ({"type": "number"}, "self.a < 1.5"),
        ({"type": "number"}, "self.a > 1"),
        ({"type": "integer"}, "self.a < 1.5"),
        ({"type": "integer"}, "self.a + 1 > 0"),
    ],
)
def test_value_of_another_type_than_its_schema_says_has_no_overload(field: dict[str, Any], rule: str) -> None:
    """An object that was stored before its schema was changed, and that has not changed since."""
    check = compile_rules({"type": "object", "properties": {"a": field}, RULES: [{"rule": rule}]})
    assert check is not None
    (error,) = check({"a": "aaa"}, ABSENT).errors
    assert "no such overload" in error.message


def test_null_among_durations_stays_null() -> None:
    durations = {"type": "array", "items": {"type": "string", "format": "duration", "nullable": True}}
    check = compile_rules({"type": "object", "properties": {"a": durations}, RULES: [{"rule": "self.a.size() == 2"}]})
    assert check is not None
    assert check({"a": [None, "1h"]}, ABSENT).errors == []
