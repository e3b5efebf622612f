"""Validation rules where their library is missing."""

import sys
from collections.abc import Iterator

import pytest

from kcr_devcluster.apiserver.structural.cel import expressions as cel
from kcr_devcluster.apiserver.structural.rules import compile_rules, definition_errors, missing_library

RULED = {"type": "object", "properties": {"a": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >"}]}}}


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have no library of CEL."""
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    cel.is_available.cache_clear()
    yield
    monkeypatch.undo()
    cel.is_available.cache_clear()


@pytest.mark.usefixtures("no_library")
def test_rules_without_library_are_a_warning_and_no_error() -> None:
    assert missing_library(RULED) == (
        "x-kubernetes-validations are not evaluated: the package cel-expr-python is not installed; pip install "
        "'kcr[embedded]' installs it where there are builds of it"
    )
    assert missing_library({"type": "object"}) == ""
    assert (compile_rules(RULED), definition_errors(RULED, "schema")) == (None, [])


def test_rules_with_library_are_compiled() -> None:
    assert missing_library(RULED) == ""
    assert [error.field for error in definition_errors(RULED, "schema")] == [
        "schema.properties[a].x-kubernetes-validations[0].rule"
    ]
