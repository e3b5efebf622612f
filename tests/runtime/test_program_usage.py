"""A program of one's own that ends before it reaches a server: its options, and what is wrong with them."""

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.kit.programs import PROGRAM, with_own_options

pytestmark = pytest.mark.usefixtures("logs_of_commands")

PARSING = with_own_options("kcr.run(setup, args=[])")
DOCUMENTED = PROGRAM.replace("-> None:\n    manager.add", '-> None:\n    """Greet namespaces."""\n    manager.add')


class Ended(NamedTuple):
    """What a program has said, and its exit code."""

    code: int
    out: str
    err: str


Run = Callable[..., Ended]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Run a program in this process, without a kubeconfig."""

    def running(program: str, *arguments: str, **variables: str) -> Ended:
        path = tmp_path / "greeter.py"
        path.write_text(program)
        monkeypatch.setattr(sys, "argv", [str(path), *arguments])
        for name, value in {"KUBECONFIG": str(tmp_path / "missing"), **variables}.items():
            monkeypatch.setenv(name, value)
        code: object = 0
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as ended:
            code = ended.code
        return Ended(int(str(code or 0)), *capfd.readouterr())

    return running


def test_program_without_configuration_ends_with_one_line(run: Run) -> None:
    ended = run(PROGRAM)
    assert ended.code == 1
    (line,) = ended.err.splitlines()
    assert "missing" in line


def test_program_shows_its_options_and_variables(run: Run) -> None:
    code, shown, _ = run(DOCUMENTED, "--help")
    assert code == 0
    assert shown.startswith("Usage: greeter.py [OPTIONS]")
    assert "Greet namespaces." in shown
    for option in ("kubeconfig", "context", "namespace", "kube-api-qps", "kube-api-burst", "metrics-bind-address",
                   "health-probe-bind-address", "ready-file", "log-format", "log-level"):  # fmt: skip
        assert f"--{option}" in shown
        assert f"KCR_{option.upper().replace('-', '_')}" in shown
    # What only the controllers that come with kcr have.
    assert "--take-over" not in shown


@pytest.mark.parametrize(
    ("program", "arguments", "variables", "line"),
    [
        # Versions of click quote the option, or do not.
        pytest.param(PROGRAM, ["--fast"], {}, "No such option", id="option"),
        pytest.param(PROGRAM, [], {"KCR_LOG_LEVEL": "loud"}, "Invalid value for KCR_LOG_LEVEL: 'loud'", id="variable"),
        pytest.param(
            PROGRAM.replace("run(setup)", "run(setup, metrics_bind_address='80')"), [], {},
            "Invalid value for metrics_bind_address: '80' is not an address", id="argument",
        ),
        pytest.param(
            PROGRAM.replace("run(setup)", "run(setup, metrics_secure=True)"), [], {},
            "metrics_secure: metrics are served nowhere: add metrics_bind_address=:8443", id="secure-keyword",
        ),
        pytest.param(
            PROGRAM, [], {"KCR_METRICS_CERT_PATH": "/certs"},
            "KCR_METRICS_CERT_PATH: it has no effect without KCR_METRICS_SECURE: add that as well", id="no-effect",
        ),
        pytest.param(
            PROGRAM.replace("run(setup)", "run(setup, kube_api_burst=0)"), [], {},
            "Invalid value for kube_api_burst: 0 is not a whole number of at least 1", id="bound",
        ),
    ],
)  # fmt: skip
def test_wrong_usage_of_a_program_is_one_line(
    run: Run, program: str, arguments: list[str], variables: dict[str, str], line: str
) -> None:
    ended = run(program, *arguments, **variables)
    assert ended.code == 2
    (told,) = ended.err.splitlines()
    assert told.startswith(f"greeter.py: {line}")
    assert ("--help" in told) == bool(arguments)


def test_program_with_options_of_its_own_passes_none_and_names_none(run: Run) -> None:
    ended = run(PARSING, "--greeting", "hello")
    assert ended.code == 1
    (line,) = ended.err.splitlines()
    assert line.startswith("greeter.py: kubeconfig ")
    assert "--" not in line


def test_names_and_selector_of_namespaces_exclude_each_other(run: Run) -> None:
    ended = run(PROGRAM, "--namespace=a", "--namespace-selector=team=blue")
    assert ended.code == 2
    assert "--namespace-selector: it chooses the namespaces, as --namespace does: omit one of them" in ended.err
