"""The suite beside variables of the shell that starts it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.environment import set_aside, setting

ROOT = Path(__file__).parents[3]
# Tests of commands, which warn of variables that no option has, and read those that one has.
COMMANDS = (
    "tests/unit/cli/test_main.py::test_wrong_usage_is_one_line_and_two[unknown-option]",
    "tests/unit/cli/test_main.py::test_summaries_of_commands_are_whole_sentences",
    "tests/unit/generators/test_rbac.py::test_setup_that_declares_no_requests_is_named",
)
# An unknown one, some that change what commands do, and settings of the suite.
SHELL = {
    "KCR_ANYTHING": "1", "KCR_NAMESPACE": "elsewhere", "KCR_CONTROLLERS": "nothing", "KCR_WORKERS": "many",
    "KCR_SEEDS": "2", "KCR_STORM_MINUTES": "1", "KCR_DEV_NODES": "none", "COLUMNS": "40",
}  # fmt: skip


@pytest.mark.soak
@pytest.mark.timeout(120)
def test_variables_of_the_shell_reach_no_test() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--timeout=0", *COMMANDS]
    ended = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **SHELL}, capture_output=True, text=True, check=False, timeout=100
    )
    assert ended.returncode == 0, ended.stdout


def test_settings_of_the_suite_are_kept_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = {"KCR_SEEDS": "7", "HOME": "/root"}
    set_aside(shell)
    aside = {"SUITE_KCR_SEEDS": "7", "HOME": "/root"}
    assert shell == aside
    # Workers of pytest-xdist inherit it, and set aside once more.
    set_aside(shell)
    assert shell == aside
    monkeypatch.setenv("SUITE_KCR_SEEDS", "7")
    assert setting("KCR_SEEDS", "2") == "7"
    monkeypatch.delenv("SUITE_KCR_SEEDS")
    assert setting("KCR_SEEDS", "2") == "2"


def test_environment_has_no_variables_of_kcr() -> None:
    assert not [name for name in os.environ if name.startswith("KCR_")]


def test_tests_read_settings_of_the_suite_where_they_are_kept() -> None:
    # Commands, in files called __main__, read the shell's own.
    files = [path for path in (ROOT / "tests").rglob("*.py") if path.name != "__main__.py"]
    direct = re.compile(r"(environ(\.get)?|getenv)[\[(]\s*[\"']KCR_")
    assert [str(path.relative_to(ROOT)) for path in files if direct.search(path.read_text())] == []
