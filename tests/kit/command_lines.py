"""Commands of `kcr`, called in the process of the test."""

import pytest

from kcr.cli.main import exit_code_of


def assert_refused(arguments: list[str], code: int, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that a command ends with one line on stderr, and with nothing on stdout."""
    assert exit_code_of(arguments) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("kcr: ")
    assert line in shown.err
    assert shown.err.count("\n") == 1
