"""What type checkers tell users of kcr: `python -m tools.user_types`, which `make lint` runs.

All types of public names are known (`basedpyright --verifytypes`), and the project that `kcr init` makes passes mypy,
basedpyright, pyrefly and ty. A checker that is not installed, for there is no wheel for the machine, is left out.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

BIN = Path(sys.executable).parent
# basedpyright takes the Python of the environment that is active.
ENVIRONMENT = {**os.environ, "VIRTUAL_ENV": str(BIN.parent), "PATH": os.pathsep.join((str(BIN), os.environ["PATH"]))}
PROJECT = "shop"
CODE = (PROJECT, "tests")


class Check(NamedTuple):
    """A run of a type checker: its arguments, and the folder that it runs in."""

    arguments: Sequence[str]
    folder: Path

    def problems(self) -> str:
        """Return what it reports; empty when all is well."""
        if not (BIN / self.arguments[0]).exists():
            print(f"{self.arguments[0]} is not installed: left out", file=sys.stderr)
            return ""
        done = subprocess.run(
            self.arguments, cwd=self.folder, env=ENVIRONMENT, check=False, capture_output=True, text=True
        )
        return "" if done.returncode == 0 else f"{' '.join(self.arguments)}:\n{done.stdout}{done.stderr}"


def main() -> int:
    """Run all checks beside each other, print what they report, and return the exit code."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([BIN / "kcr", "init", PROJECT], cwd=folder, env=ENVIRONMENT, check=True, capture_output=True)
        project = folder / PROJECT
        checks = (
            Check(("basedpyright", "--verifytypes", "kcr", "--ignoreexternal"), folder),
            Check(("basedpyright", "--level", "error", *CODE), project),
            Check(("mypy", "--strict", *CODE), project),
            Check(("pyrefly", "check", *CODE), project),
            Check(("ty", "check", *CODE), project),
        )
        with ThreadPoolExecutor() as pool:
            problems = [*filter(None, pool.map(Check.problems, checks))]
    print("\n".join(problems), end="")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
