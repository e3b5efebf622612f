import math
from typing import Any

import pytest

from kcr_devcluster.apiserver.cel.values import Duration, Timestamp, Uint
from tests.kit.cel_functions import call, same


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("slice", ([1, 2, 3], 1, 3), [2, 3]),
        ("slice", ([1, 2, 3], 1, 9), "error: cannot slice(1, 9), list is length 3"),
        ("slice", ([1], -1, 1), "error: cannot slice(-1, 1), negative indexes not supported"),
        ("flatten", ([[1], [2, 3]],), [1, 2, 3]),
        ("flatten", ([1, [2, [3]]], 2), [1, 2, 3]),
        ("flatten", ([1], -1), "error: level must be non-negative"),
        ("lists.range", (3,), [0, 1, 2]),
        ("lists.range", (-1,), []),
        ("reverse", ([1, 2],), [2, 1]),
        ("distinct", ([1, 1.0, Uint(1), 2],), [1, 2]),
        ("distinct", (["b", "a", "b"],), ["b", "a"]),
        ("sort", ([3, 1, 2],), [1, 2, 3]),
        ("sort", ([],), []),
        ("sort", ([1, "a"],), "error: list elements must have the same type"),
        ("sort", ([Timestamp(5), Timestamp(4)],), [Timestamp(4), Timestamp(5)]),
        ("sets.contains", ([1, 2], [1.0]), True),
        ("sets.contains", ([], [1]), False),
        ("sets.equivalent", ([1, 2], [2, 1, 1]), True),
        ("sets.intersects", ([1], [2]), False),
        ("isSorted", ([1, 2, 2],), True),
        ("isSorted", (["b", "a"],), False),
        ("isSorted", ([Timestamp(5), Timestamp(4)],), False),
        ("isSorted", ([1, None],), "error: no such overload"),
        ("isSorted", ([],), True),
        ("sum", ([1, 3],), 4),
        ("sum", ([9223372036854775807, 1],), "error: integer overflow"),
        ("sum", ([Uint(1), Uint(2)],), Uint(3)),
        ("sum", ([1.0, 1],), "error: no such overload"),
        ("sum", ([Duration(1), Duration(2)],), Duration(3)),
        ("sum", ([],), 0),
        ("min", ([3, 1, 2],), 1),
        ("min", ([],), "error: min called on empty list"),
        ("min", ([1, "a"],), 1),
        ("min", ([math.nan, 1.0],), math.nan),
        ("max", ([1, 3, 2],), 3),
        ("max", (["a", "b"],), "b"),
        ("max", ([1.0, math.nan],), 1.0),
        ("max", ([Duration(1), Duration(5)],), Duration(5)),
        ("indexOf", ([1, 2, 2], 2), 1),
        ("indexOf", (["a"], "b"), -1),
        ("lastIndexOf", ([1, 2, 1], 1.0), 2),
    ],
)
def test_lists_answer_as_cel_go_does(name: str, arguments: tuple[Any, ...], answer: Any) -> None:
    assert same(call(name, *arguments), answer)


def test_items_are_sorted_by_their_keys() -> None:
    assert call("@sortByAssociatedKeys", ["foo", "bar", "baz"], [3, 1, 2]) == ["bar", "baz", "foo"]
    expected = "expected a list of the same size as the associated keys list, but got 1 and 2 elements respectively"
    assert call("@sortByAssociatedKeys", ["a"], [1, 2]) == f"error: @sortByAssociatedKeys() {expected}"


def test_range_beyond_the_cost_of_expressions_is_refused() -> None:
    assert call("lists.range", 10**12) == "error: operation cancelled: actual cost limit exceeded"


def test_map_takes_no_second_value_for_a_key() -> None:
    assert call("cel.@mapInsert", {"a": 1}, "b", 2) == {"a": 1, "b": 2}
    assert call("cel.@mapInsert", {"a": 1}, {"b": 2}) == {"a": 1, "b": 2}
    assert call("cel.@mapInsert", {"a": 1}, "a", 2) == "error: insert failed: key a already exists"
    assert call("cel.@mapInsert", {1: 1}, {1.0: 2}) == "error: insert failed: key 1 already exists"
