"""Processes of kcr 0.1.0, whose wheel is built from the history of the repository."""

import io
import subprocess
import tarfile
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import environment, kcr
from tests.e2e.processes import ROOT, Running, Start
from tests.kit.wheels import build

__all__ = ["environment", "kcr"]

COMMIT = "d350c22f6f8af93d2190662841172369ec33a6d2"
# `python PROGRAM` puts its folder on the path before all others, and the packages of the wheel are in that folder.
PROGRAM = "from kcr.cli.main import main\n\nmain()\n"


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of 0.1.0; the tests are skipped where the history of the repository does not reach back to it."""
    command = ["git", "archive", "--format=tar", COMMIT]
    try:
        packed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"without the history of the repository: kcr 0.1.0 is the commit {COMMIT[:7]}")
    tree = tmp_path_factory.mktemp("released") / "kcr"
    # Python before 3.11.4 has no filters, and one since 3.14 needs none.
    checked: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(tree, **checked)
    return tree


@pytest.fixture(scope="session")
def program(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that is the command `kcr` of 0.1.0, beside its packages."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(build(checkout, "build_wheel", checkout.with_name("wheel"))) as wheel:
        wheel.extractall(folder)
    program = folder / "kcr_of_before.py"
    program.write_text(PROGRAM)
    return program


@pytest.fixture
def kcr_before(kcr: Start, program: Path) -> Start:
    """Start `kcr` of 0.1.0 with arguments, as `kcr` does with the present one."""

    @asynccontextmanager
    async def start(*arguments: str, **variables: str) -> AsyncIterator[Running]:
        async with kcr(*arguments, program=str(program), folder=program.parent, **variables) as running:
            yield running

    return start
