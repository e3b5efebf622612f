from typing import Any

import pytest

from kcr_devcluster.apiserver.cel.conversion import converter
from kcr_devcluster.apiserver.cel.declared import declared
from kcr_devcluster.apiserver.cel.metering import (
    UNLIMITED,
    Budget,
    OutOfBudgetError,
    Tally,
    UnmeteredError,
    size_of,
)
from kcr_devcluster.apiserver.cel.rules import Rule, Scope, compile_rule
from kcr_devcluster.apiserver.cel.steps import CostExceededError

NUMBERS, TEXTS = ({"type": "array", "items": {"type": of}} for of in ("integer", "string"))
SCHEMA = {"type": "object", "properties": {
    "l": NUMBERS, "t": TEXTS, "k": {"type": "integer"},
    "o": {"type": "object", "properties": {"x": {"type": "integer"}}},
    "m": {"type": "object", "additionalProperties": {"type": "integer"}},
}}  # fmt: skip
VALUE = {"l": [1, 2, 3], "t": ["abcdefghijk", "b"], "k": 1, "o": {"x": 2}, "m": {"a": 1, "b": 2}}
FIVE = "self.l.all(a, self.l.all(b, self.l.all(c, self.l.all(d, self.l.all(e, a + b + c + d + e < 1000)))))"


def compiled(expression: str) -> Rule:
    of = declared(SCHEMA)
    assert of is not None
    return compile_rule(expression, Scope.over(of))


def seen(value: dict[str, Any]) -> Any:
    convert = converter(SCHEMA)
    return value if convert is None else convert(value)


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        pytest.param("true", 0, id="literal"),
        pytest.param("self.k == 1", 3, id="field"),
        pytest.param("has(self.o.x)", 2, id="presence"),
        pytest.param("self.k in [1, 2]", 2, id="set-of-literals"),
        pytest.param("self.k in self.l", 7, id="list"),
        pytest.param("(self.k > 0 ? self.k : self.o.x) == 1", 5, id="choice"),
        pytest.param("self.l[0] == 1", 4, id="index"),
        pytest.param("self.m['a'] == 1", 4, id="entry"),
        pytest.param("[1, 2].size() == 2", 2, id="literals-cost-nothing"),
        pytest.param("[self.k].size() == 1", 14, id="list-of-values"),
        pytest.param("self.l.all(a, a > 0)", 2 + 3 * 5 + 1, id="all"),
        pytest.param("self.l.exists(a, a > 0)", 2 + 6 + 1, id="exists-ends"),
        pytest.param("self.l.map(a, a + 1).size() == 3", 2 + 3 * 14 + 1 + 2, id="map"),
        pytest.param("self.l.filter(a, a > 1).size() == 2", 2 + 3 * 2 + 2 * 13 + 1 + 2, id="filter"),
        pytest.param("self.t[0].startsWith('abc')", 3 + 2, id="text"),
        pytest.param("self.t[0].matches('^[a-k]+$')", 3 + 2 * 2, id="pattern"),
        pytest.param("self.t[0] + self.t[1] != ''", 3 + 3 + 2 + 0, id="joined-texts"),
        pytest.param("sets.contains(self.l, self.l)", 2 + 2 + 10, id="sets"),
    ],
)
def test_costs_are_counted_like_those_of_cel_go(expression: str, cost: int) -> None:
    rule = compiled(expression)
    assert rule.evaluate(seen(VALUE), None, Budget(cost, 0, is_metered=True)) is True
    if cost:
        with pytest.raises(OutOfBudgetError):
            rule.evaluate(seen(VALUE), None, Budget(cost - 1, 0, is_metered=True))


def test_small_list_in_deep_loops_takes_too_long() -> None:
    value = {"l": list(range(10))}
    with pytest.raises(CostExceededError, match="operation cancelled: actual cost limit exceeded"):
        compiled(FIVE).evaluate(seen(value), None, Budget(UNLIMITED, size_of(value)))


def test_evaluations_that_may_cost_too_much_have_to_be_metered() -> None:
    value = {"l": list(range(10))}
    tally = Tally(size_of(value))
    rule = compiled(FIVE)
    tally.expect(1, rule.program.bound)
    assert rule.evaluate(seen(value), None, tally) is True
    with pytest.raises(UnmeteredError):
        tally.judge()


def test_evaluations_that_cost_little_are_not_metered() -> None:
    tally = Tally(size_of(VALUE))
    rule = compiled("self.l.all(a, a > 0) && self.t[0].matches('^[a-k]+$')")
    tally.expect(40, rule.program.bound)
    assert all(rule.evaluate(seen(VALUE), None, tally) for _ in range(40))
    tally.judge()
