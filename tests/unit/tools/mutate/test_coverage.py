"""Functions that note that they were called."""

import builtins
import json
from pathlib import Path

import pytest

from tools.mutate import coverage
from tools.mutate.coverage import SITE, noting

CODE = b'''"""Text."""


@staticmethod
def plain(a):
    """Text."""
    return [a]


class A:
    @property
    def b(self):
        @staticmethod
        def c():
            return 1

        return c()

    if True:

        async def d(self):
            """Text."""
'''


def test_functions_note_their_calls_and_return_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtins, "KCR_CALLED", set(), raising=False)
    names: dict[str, object] = {}
    exec(compile(noting("a.py", CODE), "a.py", "exec"), names)
    called: set[str] = builtins.KCR_CALLED  # type: ignore[attr-defined]  # see above
    assert called == set()
    assert names["plain"](2) == [2]  # type: ignore[operator]  # a function
    assert called == {"a.py:plain"}
    assert names["A"]().b == 1  # type: ignore[operator]  # a class
    assert called == {"a.py:plain", "a.py:A.b"}


def test_set_is_there_before_all_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(builtins, "KCR_CALLED", raising=False)
    exec(SITE)
    assert vars(builtins).pop("KCR_CALLED") == set()


def test_recorded_tests_are_read_again(tmp_path: Path) -> None:
    row = {"test": "tests/test_a.py::test_b", "digest": "d", "seconds": 0.5, "functions": ["a.py:f"]}
    (tmp_path / "1.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "2.jsonl").write_text("")
    assert [*coverage.read(tmp_path)] == [("tests/test_a.py::test_b", "d", 0.5, frozenset({"a.py:f"}))]
