from typing import Any

import pytest

from tests.kit.cel_functions import call, same
from tests.kit.re2 import needs_re2


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("matches", ("abc", "b"), True),
        ("matches", ("a\nb", "^b"), False),
        ("matches", ("ab\n", "b$"), False),
        pytest.param("matches", ("é", "(?i)É"), True, marks=needs_re2),
        ("matches", ("aaab", "(a+)+$"), False),
        ("matches", ("abc", "["), "error: error parsing regexp: missing closing ]: `[`"),
        ("find", ("abc", "b."), "bc"),
        ("find", ("abc", "x"), ""),
        ("find", ("abcd", "a|ab"), "a"),
        ("findAll", ("abcabc", "b(c)?"), ["bc", "bc"]),
        ("findAll", ("abcabc", "b", 1), ["b"]),
        ("findAll", ("abc", "b", 0), []),
        ("findAll", ("abc", "b", -5), ["b"]),
        ("findAll", ("abc", "x*"), ["", "", "", ""]),
        ("findAll", ("xaxbxx", "x*"), ["x", "x", "xx"]),
        ("findAll", ("b", "a||b"), ["", ""]),
        ("findAll", ("aé", ""), ["", "", ""]),
    ],
)
def test_patterns_answer_as_cel_go_does(name: str, arguments: tuple[Any, ...], answer: Any) -> None:
    assert same(call(name, *arguments), answer)


@needs_re2
def test_search_of_repeated_groups_takes_linear_time() -> None:
    text = f"{'a' * 20_000}b"
    assert call("find", text, "(a+)+$") == ""
    assert call("findAll", text, "(a|aa)+$") == []
    assert call("find", text, "(?:a*)*b") == text
