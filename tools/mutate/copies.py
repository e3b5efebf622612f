"""Copies of the project in which tests run: the tree itself is never changed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tools.mutate.mutations import Mutant

ROOT = Path(__file__).parents[2]
_LEFT_OUT = shutil.ignore_patterns("__pycache__", ".venv", ".git", "dist", "build", ".mypy_cache", ".hypothesis")
_PYTEST = ("-m", "pytest", "-q", "-x", "--no-header", "--tb=line", "--timeout", "60", "-m", "not soak")
_KILLED_BY_TIME = -1
_NOT_FOUND = "ERROR: not found: "


class Outcome(NamedTuple):
    """How the tests of a mutant ended.

    Attributes:
        killed_by: The test that failed first, or what else ended them; empty if none did: the mutant survives.
        seconds: How long they took.
        tests: How many there were.
    """

    killed_by: str
    seconds: float
    tests: int


class Copy:
    """One copy of the project, for one mutant at a time."""

    def __init__(self, folder: Path, project: Path = ROOT) -> None:
        self.tree = folder
        shutil.copytree(project, folder, symlinks=True, ignore=_LEFT_OUT)
        # Python takes bytecode for that of a module by its size and by the second in which it was written.
        self._moment = int(folder.stat().st_ctime)

    def test(self, mutant: Mutant, tests: Sequence[str], limit: float) -> Outcome:
        """Run tests on a mutant until one fails.

        Args:
            mutant: The change.
            tests: Their ids.
            limit: After so many seconds they count as failed: a mutant that never ends is noticed.
        """
        if not tests:
            # Without any, pytest would run all that there are.
            return Outcome("", 0.0, 0)
        path = self.tree / mutant.path
        source = path.read_bytes()
        try:
            self._write(path, mutant.apply(source))
            return self._run(tests, limit)
        finally:
            self._write(path, source)

    def _write(self, path: Path, source: bytes) -> None:
        path.write_bytes(source)
        # As if seconds later.
        self._moment += 2
        os.utime(path, (self._moment, self._moment))

    def _run(self, tests: Sequence[str], limit: float) -> Outcome:
        started = time.perf_counter()
        code, output = self.pytest([*_PYTEST[2:], *tests], limit)
        if gone := {line.rpartition(f"{self.tree}/")[2] for line in output.splitlines() if _NOT_FOUND in line}:
            # Names of tests that differ from run to run. The mutant may have changed them as well: no test has failed.
            tests = [one for one in tests if one not in gone]
            code, output = self.pytest([*_PYTEST[2:], *tests], limit) if tests else (0, "")
        seconds = time.perf_counter() - started
        failed = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR tests", "ERROR examples"))]
        match code:
            case 0:
                killed_by = ""
            case int() if code == _KILLED_BY_TIME:
                killed_by = f"nothing within {limit:.0f} s"
            case _:
                killed_by = failed[0].split(" - ")[0] if failed else f"exit code {code}: {_last_line(output)}"
        return Outcome(killed_by, seconds, len(tests))

    def pytest(self, arguments: Sequence[str], limit: float | None, **variables: str) -> tuple[int, str]:
        """Run pytest in the copy; return its exit code, -1 after `limit` seconds, and what it has written."""
        path = os.pathsep.join((str(self.tree), str(self.tree / "devcluster")))
        environment = {**os.environ, **variables, "PYTHONPATH": path}
        command = [sys.executable, *_PYTEST[:2], *arguments]
        with subprocess.Popen(
            command, cwd=self.tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        ) as process:  # fmt: skip
            try:
                output, _ = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                # With the processes that the tests have started.
                os.killpg(process.pid, signal.SIGKILL)
                return _KILLED_BY_TIME, ""
        return process.returncode, output


def _last_line(output: str) -> str:
    return next((line for line in reversed(output.splitlines()) if line.strip()), "")[:80]
