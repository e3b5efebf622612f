import math
from typing import Any

import pytest

from kcr_devcluster.apiserver.cel.values import Duration, MapList, SetList, Timestamp, Uint
from tests.kit.cel_functions import call, same


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("_+_", (1, 2), 3),
        ("_+_", (9223372036854775807, 1), "error: integer overflow"),
        ("_+_", (Uint(18446744073709551615), Uint(1)), "error: unsigned integer overflow"),
        ("_+_", (Uint(1), Uint(2)), Uint(3)),
        ("_+_", (1.5, 2.0), 3.5),
        ("_+_", ("a", "b"), "ab"),
        ("_+_", (b"a", b"b"), b"ab"),
        ("_+_", ([1], ["a"]), [1, "a"]),
        ("_+_", ([], [1]), [1]),
        ("_+_", (Duration(9223372036854775807), Duration(1)), "error: integer overflow"),
        ("_+_", (Timestamp(1577817000000000000, 19800), Duration(1)), Timestamp(1577817000000000001, 19800)),
        ("_+_", (Duration(-1), Timestamp(-62135596800000000000)), "error: timestamp overflow"),
        ("_-_", (Timestamp(253402300799000000000), Timestamp(-62135596800000000000)), "error: integer overflow"),
        ("_-_", (Timestamp(5), Timestamp(3)), Duration(2)),
        ("_-_", (Timestamp(5), Duration(-9223372036854775808)), "error: integer overflow"),
        ("_-_", (Uint(1), Uint(2)), "error: unsigned integer overflow"),
        ("_-_", (-9223372036854775808, 1), "error: integer overflow"),
        ("_*_", (-9223372036854775808, -1), "error: integer overflow"),
        ("_*_", (3, -4), -12),
        ("_*_", (Uint(9223372036854775808), Uint(2)), "error: unsigned integer overflow"),
        ("_*_", (1.5, 2.0), 3.0),
        ("_/_", (7, -2), -3),
        ("_/_", (-7, 2), -3),
        ("_/_", (1, 0), "error: division by zero"),
        ("_/_", (-9223372036854775808, -1), "error: integer overflow"),
        ("_/_", (Uint(7), Uint(2)), Uint(3)),
        ("_/_", (Uint(1), Uint(0)), "error: division by zero"),
        ("_/_", (1.0, 0.0), math.inf),
        ("_/_", (-1.0, 0.0), -math.inf),
        ("_%_", (-7, 2), -1),
        ("_%_", (7, -2), 1),
        ("_%_", (1, 0), "error: modulus by zero"),
        ("_%_", (-9223372036854775808, -1), "error: integer overflow"),
        ("_%_", (Uint(7), Uint(4)), Uint(3)),
        ("-_", (1,), -1),
        ("-_", (-9223372036854775808,), "error: integer overflow"),
        ("-_", (1.5,), -1.5),
        ("!_", (True,), False),
        ("_<_", (1, 2), True),
        ("_<_", (1, 1.5), True),
        ("_<_", (9007199254740993, 9007199254740992.0), False),
        ("_>_", (Uint(1), -1), True),
        ("_<=_", (Uint(18446744073709551615), 1.8446744073709552e19), True),
        ("_<_", (math.nan, 1.0), "error: NaN values cannot be ordered"),
        ("_>=_", (1, math.nan), "error: NaN values cannot be ordered"),
        ("_<_", ("a", "b"), True),
        ("_<_", (b"a", b"\xff"), True),
        ("_<_", (False, True), True),
        ("_<=_", (Timestamp(0, 3600), Timestamp(0)), True),
        ("_<_", (Duration(1), Duration(2)), True),
        ("@in", (1, [1.0]), True),
        ("@in", (True, [1]), False),
        ("@in", ("a", ["b", "a"]), True),
        ("@in", ("a", {"a": 1}), True),
        ("@in", (1.0, {1: 2}), True),
        ("@in", (True, {1: 2}), False),
        ("@in", (None, [None]), True),
        ("_[_]", ([1, 2], 1), 2),
        ("_[_]", ([1], -1), "error: index out of bounds: -1"),
        ("_[_]", ([1], 5), "error: index out of bounds: 5"),
        ("_[_]", ({"a": 1}, "a"), 1),
        ("_[_]", ({"a": 1}, "b"), "error: no such key: b"),
        ("_[_]", ({1: 2}, Uint(1)), 2),
        ("_[_]", ({1: 2}, 1.5), "error: no such key: 1.5"),
        ("_[_]", ({1: 2}, True), "error: no such key: true"),
        ("size", ("aé😀",), 3),
        ("size", (b"abc",), 3),
        ("size", ([1, 2],), 2),
        ("size", ({"a": 1},), 1),
    ],
)
def test_operators_answer_as_cel_go_does(name: str, arguments: tuple[Any, ...], answer: Any) -> None:
    assert same(call(name, *arguments), answer)


def test_sum_of_a_set_and_a_list_has_each_item_once() -> None:
    found = call("_+_", SetList(["b", "a"]), ["a", "c", "c"])
    assert found == ["b", "a", "c"]
    assert isinstance(found, SetList)
    assert call("_+_", ["a"], SetList(["a"])) == ["a", "a"]


def test_sum_of_a_list_by_keys_replaces_items_with_the_same_keys() -> None:
    items = MapList([{"name": "a", "x": 1}, {"name": "b", "x": 1}])
    items.keys = ("name",)
    found = call("_+_", items, [{"name": "b", "x": 2}, {"name": "c", "x": 2}])
    assert found == [{"name": "a", "x": 1}, {"name": "b", "x": 2}, {"name": "c", "x": 2}]
    assert isinstance(found, MapList)
    assert found.keys == ("name",)
