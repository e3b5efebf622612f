"""What is read from the library's messages, word by word, and how expressions are rewritten for it."""

from typing import Any

import pytest

from kcr_devcluster.apiserver.structural.cel.expressions import (
    OVER_BUDGET,
    CompilationError,
    EvaluationError,
    Scope,
    compile_expression,
    is_available,
    uses_old,
)

pytestmark = pytest.mark.skipif(not is_available(), reason="there is no build of the library for this machine")

OBJECT = Scope({"type": "object"})
MOMENT = Scope({"properties": {"at": {"type": "string", "format": "date-time"}, "name": {"type": "string"}}})
LATER = "self.at > timestamp('2026-01-01T00:00:00Z')"
NESTED = "self.all(a, self.all(b, self.all(c, true)))"


def evaluate(expression: str, value: dict[str, Any], scope: Scope = OBJECT) -> object:
    return compile_expression(expression, scope, "bool").evaluate(value, None)


@pytest.mark.parametrize(
    ("expression", "value", "said"),
    [
        pytest.param("self.a > 0", {}, "no such key: a", id="field"),
        pytest.param("{1: 2}[self.a] > 0", {"a": 5}, "no such key: 5", id="entry"),
        pytest.param("self == oldSelf", {}, "no such key: oldSelf", id="variable"),
        pytest.param("self.a[3] > 0", {"a": []}, "index out of bounds: 3", id="item"),
        pytest.param("self.a > 0", {"a": "b"}, "no such overload", id="operator"),
        pytest.param("size(self.a) > 0", {"a": 1}, "no such overload", id="function"),
        pytest.param("self.a.b > 0", {"a": "b"}, "no such overload", id="field-of-a-text"),
        pytest.param("self.a.max() > 0", {"a": [1, "b"]}, "no such overload", id="own-function-compares"),
        pytest.param("self.a.sum() > 0", {"a": [1, "b"]}, "no such overload", id="own-function-adds"),
        pytest.param("1 / self.a > 0", {"a": 0}, "division by zero", id="division"),
        pytest.param("1 % self.a > 0", {"a": 0}, "modulus by zero", id="modulus"),
        pytest.param("self.a + 1 > 0", {"a": 2**63 - 1}, "integer overflow", id="overflow"),
        pytest.param(NESTED, {str(number): 1 for number in range(300)}, OVER_BUDGET, id="budget"),
    ],
)
def test_failed_evaluation_says_what_cel_go_says(expression: str, value: dict[str, Any], said: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        evaluate(expression, value)
    assert str(failed.value) == said


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        pytest.param(
            "nothing == 1",
            "ERROR: <input>:1:1: undeclared reference to 'nothing' (in container '')\n | nothing == 1\n | ^",
            id="undeclared",
        ),
        pytest.param(
            "[1].sort() == ['a']\n|| 1.0 == 1",
            "ERROR: <input>:1:12: found no matching overload for '_==_' applied to '(list(int), list(string))'\n"
            " | [1].sort() == ['a']\n | ...........^\n"
            "ERROR: <input>:2:8: found no matching overload for '_==_' applied to '(double, int)'\n"
            " | || 1.0 == 1\n | .......^",
            id="two-lines",
        ),
        pytest.param(
            "true // none\n&& cel.bind(a, 1, a == 1)",
            "ERROR: <input>:2:4: undeclared reference to 'cel' (in container '')\n"
            " | && cel.bind(a, 1, a == 1)\n | ...^",
            id="bindings",
        ),
    ],
)  # fmt: skip
def test_refused_expression_says_what_cel_go_says(expression: str, said: str) -> None:
    with pytest.raises(CompilationError) as refused:
        compile_expression(expression, OBJECT, "bool")
    assert str(refused.value) == f"compilation failed: {said}"


def test_lines_are_those_of_the_expression_as_written() -> None:
    with pytest.raises(CompilationError, match="<input>:2:1: undeclared reference to 'nothing'"):
        compile_expression("oldSelf.hasValue() &&\nnothing", Scope({}, optional_old=True), "bool")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        pytest.param("1u < 2 && 2.5 >= 1u", {}, id="numbers-of-two-types"),
        pytest.param("self.a.distinct().sort().reverse().slice(0, 1) == ['b']", {"a": ["a", "b"]}, id="open-list"),
    ],
)
def test_what_only_the_checker_refuses_is_evaluated(expression: str, value: dict[str, Any]) -> None:
    assert evaluate(expression, value) is True


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(LATER, id="field"),
        pytest.param(f"has(self.at) && {LATER}", id="asked-for"),
        pytest.param(f"self.name == 'self.at' && {LATER}", id="in-a-text"),
        pytest.param(f"// it's '''self.at'''\n{LATER} // isn't it", id="in-a-comment"),
        pytest.param(f"'//' != self.name && {LATER}", id="no-comment"),
    ],
)
def test_time_is_compared_wherever_it_is_named(expression: str) -> None:
    assert evaluate(expression, {"at": "2026-02-01T00:00:00Z", "name": "self.at"}, MOMENT) is True


@pytest.mark.parametrize(
    ("expression", "old"),
    [
        pytest.param("self == oldSelf", True, id="named"),
        pytest.param("self.size() in oldSelf", True, id="after-a-word"),
        pytest.param("self.a == 'oldSelf'", False, id="in-a-text"),
        pytest.param("self.a == 1 // unlike oldSelf", False, id="in-a-comment"),
        pytest.param("self.oldSelf == 1 || self. oldSelf == 2", False, id="field"),
    ],
)
def test_transition_rule_names_the_old_object(expression: str, old: bool) -> None:
    assert uses_old(expression) is old
    assert compile_expression(expression, OBJECT, "bool").uses_old is old


def test_bindings_in_a_comment_are_none() -> None:
    assert evaluate("true // cel.bind(a, 1, a)", {}) is True


def test_expression_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(CompilationError, match="compilation failed"):
        compile_expression("(" * 500 + "true" + ")" * 500, OBJECT, "bool")
