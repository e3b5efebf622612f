from typing import Any

import pytest

from tests.kit.cel_functions import call, same


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("charAt", ("abc", 3), ""),
        ("charAt", ("aé", 1), "é"),
        ("charAt", ("abc", 4), "error: index out of range: 4"),
        ("charAt", ("abc", -1), "error: index out of range: -1"),
        ("contains", ("abc", "b"), True),
        ("startsWith", ("abc", "ab"), True),
        ("endsWith", ("abc", "bc"), True),
        ("indexOf", ("abc", "", 10), 10),
        ("indexOf", ("aéb", "b"), 2),
        ("indexOf", ("abc", "c", -1), "error: index out of range: -1"),
        ("indexOf", ("abc", "a", 1), -1),
        ("indexOf", ("abc", "c", 5), -1),
        ("lastIndexOf", ("abcabc", "bc"), 4),
        ("lastIndexOf", ("abcabc", "bc", 3), 1),
        ("lastIndexOf", ("abc", "", 10), 10),
        ("lastIndexOf", ("abc", "c", -1), "error: index out of range: -1"),
        ("lastIndexOf", ("abc", "c", 5), -1),
        ("lastIndexOf", ("", "a"), -1),
        ("lowerAscii", ("AÉb",), "aÉb"),
        ("upperAscii", ("aéB",), "AéB"),
        ("replace", ("aXbX", "X", "-"), "a-b-"),
        ("replace", ("aXbX", "X", "-", 1), "a-bX"),
        ("replace", ("aXb", "X", "-", 0), "aXb"),
        ("replace", ("aXb", "X", "-", -1), "a-b"),
        ("replace", ("abc", "", "-"), "-a-b-c-"),
        ("replace", ("abc", "", "-", 2), "-a-bc"),
        ("split", ("a,b,c", ","), ["a", "b", "c"]),
        ("split", ("abc", ""), ["a", "b", "c"]),
        ("split", ("", ""), []),
        ("split", ("", ","), [""]),
        ("split", ("abc", "", 2), ["a", "bc"]),
        ("split", ("", "", 1), []),
        ("split", ("a,b,c", ",", 2), ["a", "b,c"]),
        ("split", ("a,b,c", ",", 0), []),
        ("split", ("a,b,c", ",", -1), ["a", "b", "c"]),
        ("substring", ("é", 0, 1), "é"),
        ("substring", ("abc", 3), ""),
        ("substring", ("abc", 4), "error: index out of range: 4"),
        ("substring", ("abc", 2, 1), "error: invalid substring range. start: 2, end: 1"),
        ("substring", ("abc", 1, 9), "error: index out of range: 9"),
        ("substring", ("abc", -1, 1), "error: index out of range: -1"),
        ("trim", (" \t\x85a\u2003\x1c",), "a\u2003\x1c"),
        ("trim", ("\x1ca\xa0",), "\x1ca"),
        ("strings.quote", ('a"\\\n\x07é',), '"a\\"\\\\\\n\\aé"'),
        ("join", (["a", "b"],), "ab"),
        ("join", (["a", "b"], "-"), "a-b"),
        ("join", ([], "-"), ""),
        ("join", (["a", 1], "-"), "error: join: invalid input: 1"),
        ("jsonpatch.escapeKey", ("a/b~c",), "a~1b~0c"),
    ],
)
def test_strings_answer_as_cel_go_does(name: str, arguments: tuple[Any, ...], answer: Any) -> None:
    assert same(call(name, *arguments), answer)
