"""Which changes of a module there are, and what is left as it is."""

import ast
from pathlib import Path

import pytest

from tools.mutate.mutations import is_valid, mutants

ROOT = Path(__file__).parents[4]


def changed(code: str) -> list[str]:
    """Return the module with each of its changes that leave it valid."""
    source = code.encode()
    return [one.apply(source).decode() for one in mutants("m.py", source) if is_valid(one, source)]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("a < b", ["a <= b", "a >= b"], id="boundary-and-opposite"),
        pytest.param("(a) is not (b)", ["(a) is (b)"], id="operands-in-parentheses"),
        pytest.param("a not in b", ["a in b"], id="membership"),
        pytest.param("a and b and c", ["a or b and c", "a and b or c"], id="each-of-several-conditions"),
        pytest.param("not (a or b)", ["(a or b)", "not (a and b)"], id="negation"),
        pytest.param("if f(a): a", ["if not (f(a)): a"], id="condition"),
        pytest.param("a = 3", ["a = 4"], id="number"),
        pytest.param("a = False", ["a = True"], id="boolean"),
        pytest.param("a = 'uid'", ['a = ""'], id="word"),
        pytest.param("a = ''", ['a = "mutated"'], id="empty-word"),
        pytest.param("a - b", ["a + b"], id="sum"),
        pytest.param("min(a)", ["pass", "max(a)"], id="extreme-and-statement"),
        pytest.param("def f(): return a", ["def f(): return None"], id="result"),
        pytest.param("a = f(b, c)", ["a = f(b)"], id="last-argument"),
        pytest.param("a = f(b, c=d, e=g)", ["a = f(b, e=g)", "a = f(b, c=d)"], id="each-argument-with-a-name"),
        pytest.param("a = f(b=c,)", [], id="comma-that-would-be-left"),
        pytest.param("a.b = c", ["pass"], id="assignment-to-an-attribute"),
        pytest.param("a += b", ["pass"], id="sum-in-place"),
        pytest.param("for a in b: continue", ["for a in b: break"], id="continue"),
        pytest.param("raise E", ["pass"], id="raise"),
        pytest.param(
            "é = 'ü'; a < b", ['é = ""; a < b', "é = 'ü'; a <= b", "é = 'ü'; a >= b"], id="letters-of-two-bytes"
        ),
    ],
)
def test_module_has_these_changes(code: str, expected: list[str]) -> None:
    assert changed(code) == expected


@pytest.mark.parametrize(
    "code",
    [
        pytest.param('"""Text."""\ndef f():\n    """Text."""', id="docstrings"),
        pytest.param("import a\nif TYPE_CHECKING:\n    b = 1", id="types-only"),
        pytest.param("def f(a: Literal['b']) -> 'c': ...", id="annotations"),
        pytest.param("A = Literal['b']; B = TypeVar('B', bound=1)", id="types"),
        pytest.param("@f(a=1)\ndef g(): ...", id="decorators"),
        pytest.param("def __repr__(self): return 'a' + b", id="repr"),
        pytest.param("_log.info('a', b=1)", id="logs"),
        pytest.param("self._log.bind(a=1).info('a')", id="logs-of-an-object"),
        pytest.param("__all__ = ['a']", id="exports"),
        pytest.param("a = 'some text'", id="texts"),
        pytest.param("a = f'{b + 1}'", id="f-strings"),
    ],
)
def test_what_no_behaviour_depends_on_is_left(code: str) -> None:
    assert changed(code) == []


def test_text_of_an_exception_is_left_and_its_raising_is_not() -> None:
    assert changed("raise E('a', b=1)") == ["pass"]


def test_change_is_named_by_its_function_and_its_number() -> None:
    code = b"class A:\n    def f(self):\n        def g():\n            return x.get(1) or y.get(1)\n"
    found = [one for one in mutants("a/b.py", code) if one.kind == "constant"]
    assert [one.identity for one in found] == ["a/b.py A.f.g: 1 => 2", "a/b.py A.f.g: 1 => 2 #2"]
    assert {one.entry for one in found} == {"A.f"}


def test_changes_of_a_whole_module_are_one_place_each() -> None:
    source = (ROOT / "kcr/tokenbucket.py").read_bytes()
    found = mutants("kcr/tokenbucket.py", source)
    assert len(found) > 15
    assert len({one.identity for one in found}) == len(found)
    for one in found:
        after = one.apply(source)
        assert after[: one.start] == source[: one.start]
        assert after != source
        if is_valid(one, source):
            assert ast.dump(ast.parse(after)) != ast.dump(ast.parse(source))
