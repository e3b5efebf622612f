"""Rules of schemas: what the parity corpus, which compares values and messages with a real server, cannot see."""

from typing import Any

import pytest

from kcr_devcluster.apiserver.cel.conversion import converter
from kcr_devcluster.apiserver.cel.declared import declared
from kcr_devcluster.apiserver.cel.metering import UNLIMITED, Budget, size_of
from kcr_devcluster.apiserver.cel.rules import Rule, Scope, compile_rule
from kcr_devcluster.apiserver.cel.steps import CostExceededError
from kcr_devcluster.apiserver.cel.syntax import CompilationError
from kcr_devcluster.apiserver.cel.values import EvaluationError

TEXT = {"type": "string"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": TEXT, "at": {"type": "string", "format": "date-time"}, "any": {"x-kubernetes-int-or-string": True},
        "oldSelf": {"type": "integer"},
        "moments": {"type": "array", "items": {"type": "string", "format": "date-time"}},
        "labels": {"type": "object", "additionalProperties": TEXT},
    },
}  # fmt: skip
NESTED = "self.labels.all(a, self.labels.all(b, self.labels.all(c, true)))"


def compiled(expression: str, *, is_old_optional: bool = False) -> Rule:
    of = declared(SCHEMA)
    assert of is not None
    return compile_rule(expression, Scope.over(of), is_old_optional=is_old_optional)


def evaluate(expression: str, value: dict[str, Any]) -> object:
    convert = converter(SCHEMA)
    assert convert is not None
    return compiled(expression).evaluate(convert(value), None, Budget(UNLIMITED, size_of(value)))


@pytest.mark.parametrize(
    ("expression", "value", "said"),
    [
        pytest.param("self.any > 1", {"any": "b"}, "no such overload", id="operator"),
        pytest.param("size(self.any) > 0", {"any": 1}, "no such overload: size", id="function"),
        pytest.param("self.any.b > 0", {"any": "b"}, "no such key: b", id="field-of-a-text"),
        pytest.param("self.oldSelf > 0", {"oldSelf": 1.0}, "invalid data, expected int, got float64", id="float"),
        pytest.param("self.any && true", {"any": 1}, "no such overload", id="logical"),
        pytest.param("self.any ? true : true", {"any": 1}, "no such overload", id="choice"),
        pytest.param("self.labels.all(k, dyn(1))", {"labels": {"a": "b"}}, "no such overload", id="predicate"),
        pytest.param("self.labels.exists(k, 1 / 0 > 0)", {"labels": {"a": "b"}}, "division by zero", id="exists"),
        pytest.param("self.any.all(k, true)", {"any": 1}, "got 'types.Int', expected iterable type", id="range"),
    ],
)
def test_failed_evaluation_says_what_cel_go_says(expression: str, value: dict[str, Any], said: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        evaluate(expression, value)
    assert str(failed.value) == said


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("1 / 0 > 0 || true", id="or"),
        pytest.param("!(1 / 0 > 0 && false)", id="and"),
        pytest.param("[0, 1].exists(x, 1 / x == 1)", id="exists"),
        pytest.param("![0, 2].all(x, 1 / x == 1)", id="all"),
        pytest.param("[1, 2].map(x, x > 1, x * 2) == [4]", id="map-with-a-condition"),
        pytest.param("[1, 2].exists_one(x, x > 1)", id="exactly-one"),
        pytest.param("{'a': 1}.transformList(k, v, k + string(v)) == ['a1']", id="two-variables"),
        pytest.param("{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}", id="map-of-a-map"),
        pytest.param("['b', 'a'].sortBy(x, x) == ['a', 'b']", id="sorted-by-a-key"),
        pytest.param("[?self.?nothing, ?optional.of('a')] == ['a']".replace("nothing", "name"), id="optional-items"),
        pytest.param("{?'a': optional.of(1), ?'b': optional.none()} == {'a': 1}", id="optional-entries"),
        pytest.param("self.?labels.a.orValue('none') == 'none'", id="optional-field"),
        pytest.param("!has(self.labels) || self.labels.size() == 0", id="not-there"),
    ],
)
def test_what_decides_outweighs_what_fails(expression: str) -> None:
    assert evaluate(expression, {}) is True


def test_moments_at_every_depth_are_moments() -> None:
    value = {"at": "2026-02-01T01:30:00+02:00", "moments": ["2026-01-31T23:00:00Z", "2026-02-01T01:00:00+03:00"]}
    assert evaluate("self.moments.all(m, self.at > m) && self.moments.max() == self.moments[0]", value) is True


def test_text_that_is_no_moment_fails_where_it_is_read() -> None:
    assert evaluate("has(self.at)", {"at": "never"}) is True
    with pytest.raises(EvaluationError, match="Invalid date-time formatted string never"):
        evaluate("self.at > timestamp('2026-01-01T00:00:00Z')", {"at": "never"})


def test_evaluation_that_takes_too_long_is_ended() -> None:
    with pytest.raises(CostExceededError, match="operation cancelled: actual cost limit exceeded"):
        evaluate(NESTED, {"labels": {str(number): "" for number in range(300)}})


def test_lines_are_those_of_the_expression_as_written() -> None:
    with pytest.raises(CompilationError, match="<input>:2:1: undeclared reference to 'nothing'"):
        compiled("oldSelf.hasValue() &&\nnothing", is_old_optional=True)


@pytest.mark.parametrize(
    ("expression", "old"),
    [
        pytest.param("self == oldSelf", True, id="named"),
        pytest.param("self.name in [oldSelf.name]", True, id="in-a-list"),
        pytest.param("self.name == 'oldSelf'", False, id="in-a-text"),
        pytest.param("self.name == '' // unlike oldSelf", False, id="in-a-comment"),
        pytest.param("self.oldSelf == 1 || self. oldSelf == 2", False, id="field"),
        pytest.param("self.labels.all(oldSelf, oldSelf != '')", True, id="variable-of-a-macro-as-upstream"),
    ],
)
def test_transition_rule_names_the_old_object(expression: str, old: bool) -> None:
    assert compiled(expression).uses_old is old


@pytest.mark.parametrize(
    "text", ["(" * 500 + "true" + ")" * 500, "self" + ".a" * 3000 + " == 1", "1" + " + 1" * 400 + " > 0"]
)
def test_expression_that_is_nested_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(CompilationError, match=r"compilation failed: ERROR: <input>:.* recursion"):
        compiled(text)


def test_expression_as_deep_as_the_parser_takes_is_evaluated() -> None:
    assert evaluate("1" + " + 1" * 200 + " == 201 && " + "!" * 30 + "true", {}) is True
