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
