"""Type checkers as users run them."""

from pathlib import Path

import pytest

from tools.user_types import Check


def test_check_that_fails_returns_what_it_printed(tmp_path: Path) -> None:
    found = Check(("python", "-c", "print('error: no type'); raise SystemExit(1)"), tmp_path).problems()
    assert found.endswith(":\nerror: no type\n")
    assert Check(("python", "-c", "print('0 errors')"), tmp_path).problems() == ""


def test_checker_that_is_not_installed_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Check(("kcr-no-such-checker",), tmp_path).problems() == ""
    assert capsys.readouterr().err == "kcr-no-such-checker is not installed: left out\n"
