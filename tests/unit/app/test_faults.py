"""One line for an error that nothing expects: where it happened, and in whose code."""

import importlib
import json
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from kcr.api.durations import parse_duration
from kcr.app.faults import import_fault, remedy, unexpected


def misspelled() -> None:
    _ = "text".uper()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(misspelled, id="own-line"),
        pytest.param(lambda: json.loads("{"), id="in-the-standard-library"),
        pytest.param(lambda: parse_duration(5), id="in-kcr"),  # type: ignore[arg-type]
    ],
)
def test_place_is_the_innermost_line_of_the_program(call: Callable[[], object]) -> None:
    with pytest.raises((AttributeError, ValueError, TypeError)) as caught:
        call()
    assert f" at test_faults.py:{call.__code__.co_firstlineno + (call is misspelled)} in " in unexpected(caught.value)
    assert remedy(caught.value).startswith("correct it there")


def test_error_without_a_line_of_the_program_is_a_bug_of_kcr() -> None:
    try:
        parse_duration(5)  # type: ignore[arg-type]
    except (AttributeError, TypeError) as error:
        assert error.__traceback__ is not None
        inner = error.with_traceback(error.__traceback__.tb_next)
        assert " at durations.py:" in unexpected(inner)
        assert remedy(inner).startswith("this is a bug")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("import kcr_test_none\n", "'kcr_test_none' at kcr_test_bad.py:1: correct it there", id="import"),
        pytest.param("x = Annotated\n", "'Annotated' is not defined at kcr_test_bad.py:1: correct it", id="name"),
        pytest.param("def x(:\n", "(kcr_test_bad.py, line 1): correct it there", id="syntax"),
        pytest.param(None, "No module named 'kcr_test_bad': name a module", id="absent"),
    ],
)
def test_module_that_fails_is_named_with_its_line(
    text: str | None, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if text:
        (tmp_path / "kcr_test_bad.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    with pytest.raises((ImportError, NameError, SyntaxError)) as caught:
        importlib.import_module("kcr_test_bad")
    # As kcr catches it: without the frame of the test.
    error = caught.value.with_traceback(caught.value.__traceback__.tb_next if caught.value.__traceback__ else None)
    assert fault in import_fault(error, "kcr_test_bad", "name a module")


def test_error_of_an_installed_operator_is_no_bug_of_kcr() -> None:
    file = f"{sysconfig.get_path('purelib')}/shop/reconciler.py"
    code: dict[str, Callable[[], object]] = {}
    exec(compile("def reconcile():\n    return unknown\n", file, "exec"), code)
    with pytest.raises(NameError) as caught:
        code["reconcile"]()
    trace = caught.value.__traceback__
    error = caught.value.with_traceback(trace.tb_next if trace else None)
    assert " at reconciler.py:2 in reconcile" in unexpected(error)
    assert remedy(error).startswith("correct it there")
