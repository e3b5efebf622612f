from typing import Any

import pytest

from kcr_devcluster.apiserver.cel.values import NONE, Duration, Optional, Timestamp, Uint
from tests.kit.cel_functions import call, same


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("optional.of", (None,), Optional(True, None)),
        ("optional.none", (), NONE),
        ("value", (Optional(True, 1),), 1),
        ("value", (NONE,), "error: optional.none() dereference"),
        ("hasValue", (Optional(True, 1),), True),
        ("or", (NONE, Optional(True, 2)), Optional(True, 2)),
        ("or", (Optional(True, 1), Optional(True, 2)), Optional(True, 1)),
        ("orValue", (NONE, 3), 3),
        ("orValue", (Optional(True, 1), 3), 1),
        ("_[?_]", ([1], 0), Optional(True, 1)),
        ("_[?_]", ([1], 5), NONE),
        ("_[?_]", ({"a": 1}, "a"), Optional(True, 1)),
        ("_[?_]", ({"a": 1}, "b"), NONE),
        ("_[?_]", (Optional(True, {"a": 1}), "a"), Optional(True, 1)),
        ("_[?_]", (Optional(True, [1]), 3), NONE),
        ("_[_]", (Optional(True, {"a": 1}), "b"), NONE),
        ("_[_]", (Optional(True, [1]), 0), Optional(True, 1)),
        ("_[_]", (NONE, 0), NONE),
        ("first", ([1, 2],), Optional(True, 1)),
        ("last", ([1, 2],), Optional(True, 2)),
        ("last", ([],), NONE),
        ("optional.unwrap", ([Optional(True, 1), NONE],), [1]),
        ("unwrapOpt", ([Optional(True, 1)],), [1]),
        ("optional.ofNonZeroValue", (0,), NONE),
        ("optional.ofNonZeroValue", (1,), Optional(True, 1)),
        ("optional.ofNonZeroValue", (Uint(0),), NONE),
        ("optional.ofNonZeroValue", (0.0,), NONE),
        ("optional.ofNonZeroValue", ("",), NONE),
        ("optional.ofNonZeroValue", ("a",), Optional(True, "a")),
        ("optional.ofNonZeroValue", (b"",), NONE),
        ("optional.ofNonZeroValue", (None,), NONE),
        ("optional.ofNonZeroValue", (False,), NONE),
        ("optional.ofNonZeroValue", ([],), NONE),
        ("optional.ofNonZeroValue", ([0],), Optional(True, [0])),
        ("optional.ofNonZeroValue", ({},), NONE),
        ("optional.ofNonZeroValue", (Duration(0),), NONE),
        ("optional.ofNonZeroValue", (Timestamp(0),), Optional(True, Timestamp(0))),
        ("optional.ofNonZeroValue", (Timestamp(-62135596800000000000),), NONE),
    ],
)
def test_optional_values_answer_as_cel_go_does(name: str, arguments: tuple[Any, ...], answer: Any) -> None:
    assert same(call(name, *arguments), answer)
