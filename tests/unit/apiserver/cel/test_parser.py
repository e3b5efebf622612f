"""The parser: literals, how operators bind, and how far it reads on after an error."""

from typing import Any

import pytest

from kcr_devcluster.apiserver.cel.parser import parse
from kcr_devcluster.apiserver.cel.syntax import Call, CompilationError, Constant, Ident, Node
from kcr_devcluster.apiserver.cel.values import Uint


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12), ("-12", -12), ("0x1F", 31), ("-0x1f", -31), ("3u", Uint(3)), ("0xFu", Uint(15)),
        ("1.5", 1.5), (".5", 0.5), ("1e3", 1000.0), ("-1.5E-2", -0.015), ("true", True), ("null", None),
        ("'a'", "a"), ('"a\'b"', "a'b"), (r"'\n\t\\\'\x41\u00e9\U0001F600\101'", "\n\t\\'A\u00e9\U0001f600A"),
        (r"r'\n'", "\\n"), ("'''a\n'b'''", "a\n'b"), ("'\u00e9'", "\u00e9"),
        ("b'a'", b"a"), (r"b'\xff\377'", b"\xff\xff"), ("b'\u00e9'", b"\xc3\xa9"), (r"br'\x'", rb"\x"),
        ("  1 // one\n", 1), ("9223372036854775807", 2**63 - 1), ("-9223372036854775808", -(2**63)),
    ],
)  # fmt: skip
def test_literal_is_its_value(text: str, value: Any) -> None:
    root = parse(text).root
    assert isinstance(root, Constant)
    assert (root.value, type(root.value)) == (value, type(value))


def written(node: Node) -> str:
    """An expression with all its calls as such."""
    match node:
        case Ident():
            return node.name
        case Constant():
            return repr(node.value)
        case Call(_, None, function, arguments):
            return f"{function}({', '.join(map(written, arguments))})"
    raise AssertionError(node)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b * c", "_+_(a, _*_(b, c))"), ("a - b - c", "_-_(_-_(a, b), c)"), ("a < b == c", "_==_(_<_(a, b), c)"),
        ("a && b || c", "_||_(_&&_(a, b), c)"), ("a ? b : c ? d : e", "_?_:_(a, b, _?_:_(c, d, e))"),
        ("!!a", "a"), ("!!!a", "!_(a)"), ("-a", "-_(a)"), ("a -1", "_-_(a, 1)"), ("a in b", "@in(a, b)"),
        ("a && b && c && d", "_&&_(_&&_(a, b), _&&_(c, d))"), ("(a + b) * c", "_*_(_+_(a, b), c)"),
        ("f(a, -1)", "f(a, -1)"), ("a[b]", "_[_](a, b)"), ("a[?b]", "_[?_](a, b)"), (".a", ".a"),
    ],
)  # fmt: skip
def test_operators_bind_as_they_do_in_cel(text: str, expected: str) -> None:
    assert written(parse(text).root) == expected


OPERAND = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("a +", [(4, f"mismatched input '<EOF>' expecting {OPERAND}")], id="no-operand"),
        pytest.param("a b", [(3, "extraneous input 'b' expecting <EOF>")], id="one-too-many"),
        pytest.param("a b c", [(3, "mismatched input 'b' expecting <EOF>")], id="two-too-many"),
        pytest.param("(a", [(3, "missing ')' at '<EOF>'")], id="parenthesis"),
        pytest.param("[a, b", [(6, "mismatched input '<EOF>' expecting {']', ','}")], id="list"),
        pytest.param("a ? b c", [(7, "missing ':' at 'c'")], id="choice"),
        pytest.param("a.", [(3, "no viable alternative at input '.'")], id="field"),
        pytest.param("{'a': 1,", [(9, "missing '}' at '<EOF>'")], id="map"),
        pytest.param("a = 1", [
            (3, "token recognition error at: '= '"), (5, "extraneous input '1' expecting <EOF>"),
        ], id="assignment"),
        pytest.param("a && 'b", [
            (6, "token recognition error at: ''b'"), (8, f"mismatched input '<EOF>' expecting {OPERAND}"),
        ], id="quote"),
        pytest.param("for", None, id="reserved"),
        pytest.param("9223372036854775808", None, id="too-large"),
    ],
)  # fmt: skip
def test_error_is_said_as_upstream_says_it(text: str, said: list[tuple[int, str]] | None) -> None:
    with pytest.raises(CompilationError) as failed:
        parse(text)
    others = {"for": "reserved identifier: for", "9223372036854775808": "invalid int literal"}
    words = [f"ERROR: <input>:1:{column}: Syntax error: {one}" for column, one in said or ()]
    words = words or [f"ERROR: <input>:1:1: {others[text]}"]
    assert [line for line in str(failed.value).split("\n") if line.startswith("ERROR")] == words


def test_place_of_an_error_counts_characters_and_lines() -> None:
    with pytest.raises(CompilationError) as failed:
        parse("'\u00e9' ==\n \u00e9")
    assert "ERROR: <input>:2:2: Syntax error: token recognition error at: '\u00e9'\n |  \u00e9\n | .\uff3e" in str(
        failed.value
    )
