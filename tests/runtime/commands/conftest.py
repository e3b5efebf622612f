"""Commands about objects, called in this process, and the cluster that they are about."""

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kcr.app.logs import configure_logs
from kcr.cli.main import exit_code_of
from tests.kit.served_cluster import ServedCluster, served_cluster


class Ended(NamedTuple):
    """What a command has printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Command = Callable[..., Ended]


@pytest.fixture(scope="module")
def served(_quiet: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCluster]:
    """Serve one cluster for all tests of a module; each has objects of its own."""
    with served_cluster(tmp_path_factory.mktemp("cluster")) as served:
        yield served


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> Iterator[None]:
    """Log as the commands do, also the cluster's thread, which outlives a test; and collect what the commands leave.

    A watch that is cut closes its connection once the server agrees. A process does not wait for that.
    """
    configure_logs(None, "critical")
    yield
    configure_logs("json", "debug")
    gc.collect()


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin in an empty home."""
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def kcr(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> Command:
    """Call `kcr` with arguments, and with the kubeconfig of `served` unless another one is given."""

    def call(*arguments: str, kubeconfig: Path | None = None) -> Ended:
        path = kubeconfig or request.getfixturevalue("served").kubeconfig
        monkeypatch.setenv("KUBECONFIG", str(path))
        code = exit_code_of(list(arguments))
        return Ended(code, *capsys.readouterr())

    return call
