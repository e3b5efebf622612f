"""The two versions of an operator, each in a process of its interpreter: `driver` runs there, on a copy of the objects.

Request and result are JSON files, so the interpreters need not have the same kcr.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec

from kcr.errors import ConfigError
from kcr_devcluster.kinds import definitions_of
from kcr_devcluster.rehearsal import driver
from kcr_devcluster.rehearsal.loading import load
from kcr_devcluster.rehearsal.snapshot_file import Snapshot

# The controllers of a cluster, beside those that are built into an embedded one.
CLUSTER_CONTROLLERS = ("job", "cronjob", "ttl")
# Runs of both versions are the same but for the versions.
_SEED = 0
# Beside the limit of the driver: it ends itself, and says where it was.
_GRACE_SECONDS = 30.0
# Variables that lead an interpreter to other packages, or an operator to a real cluster.
_DROPPED = ("KUBECONFIG", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV")


class Version(NamedTuple):
    """A version of the operator.

    Attributes:
        name: `old` or `new`.
        path: The folder of its environment, or its interpreter, as the user has named it.
        definitions: Files of CustomResourceDefinitions that come with it.
    """

    name: str
    path: Path
    definitions: tuple[Path, ...] = ()


class Plan(NamedTuple):
    """What both versions do.

    Attributes:
        controllers: The controllers of the operator.
        seconds: How long they run, in virtual time.
        limit: How long each may take, in real time.
    """

    controllers: tuple[str, ...]
    seconds: float
    limit: float


class List(msgspec.Struct, rename="camel"):
    """The objects of a kind at the end."""

    api_version: str
    plural: str
    items: list[dict[str, Any]]


class Outcome(msgspec.Struct):
    """What came of a version.

    Attributes:
        protocol: The version of this form.
        kcr: The version of kcr.
        python: The version of Python.
        requests: Phase (`start` for the first minute, or `after`), verb and resource, and how many there were.
        refused: Verb, resource and code of requests that were refused, and how many there were.
        failing: The last error of each key that still failed at the end, by controller.
        lists: The objects at the end.
        error: Why it could not be rehearsed; empty where it was.
    """

    protocol: int
    kcr: str = ""
    python: str = ""
    requests: list[tuple[str, str, str, int]] = []
    refused: list[tuple[str, str, int, int]] = []
    failing: dict[str, dict[str, str]] = {}
    lists: list[List] = []
    error: str = ""


def rehearse(snapshot: Snapshot, versions: Sequence[Version], plan: Plan) -> list[Outcome]:
    """Run versions side by side on a snapshot.

    Args:
        snapshot: The snapshot.
        versions: The versions.
        plan: What they do.

    Raises:
        ConfigError: One of them cannot be rehearsed; the message names it, the cause and the remedy.
    """
    pythons = [_python(version.path) for version in versions]
    for version in versions:
        # Read by each version for itself: here only to refuse what is no definition at once.
        definitions_of([str(file) for file in version.definitions])
    with TemporaryDirectory(prefix="kcr-rehearse-") as folder, ExitStack() as stack:
        runs = []
        for version, python in zip(versions, pythons, strict=True):
            run = _Run(version, python, Path(folder, version.name))
            run.start(snapshot, plan)
            stack.callback(run.end)
            runs.append(run)
        return [run.outcome(plan) for run in runs]


def _python(path: Path) -> Path:
    """Return the interpreter of an environment; links are kept, for they lead out of it."""
    python = (path / "bin" / "python") if path.is_dir() else path
    if not python.is_file():
        remedy = "name the folder of a virtual environment, or an interpreter"
        raise ConfigError(f"{path}: {f'it has no bin{os.sep}python' if path.is_dir() else 'no such file'}: {remedy}")
    if not os.access(python, os.X_OK):
        raise ConfigError(f"{python} cannot be executed: name the folder of a virtual environment, or an interpreter")
    return Path(os.path.abspath(python))


class _Run:
    def __init__(self, version: Version, python: Path, folder: Path) -> None:
        self._version, self._python, self._folder = version, python, folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, snapshot: Snapshot, plan: Plan) -> None:
        """Start the process.

        Raises:
            ConfigError: The interpreter cannot be started, or the snapshot lacks something.
        """
        self._folder.mkdir()
        nodes = load(snapshot, self._folder / "data")
        head = snapshot.head
        request = {
            "start": head.time, "seconds": plan.seconds, "limit": plan.limit, "seed": _SEED, "nodes": nodes,
            "folder": str(self._folder / "data"), "namespace": head.namespace, "controllers": plan.controllers,
            "beside": [name for name in CLUSTER_CONTROLLERS if name not in plan.controllers],
            "kinds": [os.path.abspath(file) for file in self._version.definitions],
            "resources": [(kind.api_version, kind.plural) for kind in head.kinds],
        }  # fmt: skip
        (self._folder / "request.json").write_bytes(msgspec.json.encode(request))
        program = self._folder / "driver.py"
        program.write_text(Path(driver.__file__).read_text(encoding="utf-8"), encoding="utf-8")
        command = [str(self._python), str(program), str(self._folder / "request.json"), str(self._result)]
        kept = {name: value for name, value in os.environ.items() if name not in _DROPPED}
        with (self._folder / "log").open("wb") as log:
            try:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=_project(self._python),
                    # Sets of texts have the same order each time.
                    env={**kept, "PYTHONHASHSEED": "0"},
                )  # fmt: skip
            except OSError as error:
                raise ConfigError(f"{self._python} cannot be started: {error.strerror}") from error

    @property
    def _result(self) -> Path:
        return self._folder / "result.json"

    def outcome(self, plan: Plan) -> Outcome:
        """Wait for the process, and return its result.

        Raises:
            ConfigError: There is none.
        """
        assert self._process is not None
        name = f"{self._version.name} version, {self._version.path}"
        try:
            code = self._process.wait(plan.limit + _GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            raise ConfigError(f"{name}: it does not answer after {plan.limit:.0f} s") from None
        try:
            outcome = msgspec.json.decode(self._result.read_bytes(), type=Outcome)
        except FileNotFoundError:
            raise ConfigError(f"{name}: its process ended with code {code}: {self._last_line()}") from None
        if outcome.error:
            raise ConfigError(f"{name}: {outcome.error}")
        return outcome

    def _last_line(self) -> str:
        lines = (self._folder / "log").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def end(self) -> None:
        """End the process, if it still runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_SECONDS)


def _project(python: Path) -> Path:
    """Return the folder that an environment is in: modules of the operator are searched there, as in development."""
    return python.parents[2] if len(python.parents) > 2 else Path(sys.prefix)
