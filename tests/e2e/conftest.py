"""Real processes: `kcr` as a user starts it, with its output in files and a home of its own."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.e2e.processes import ROOT, Running, Start


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    """Nothing of the developer's own: no kubeconfig, an empty home."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KCR_", "KUBE", "XDG_"))}
    home = tmp_path / "home"
    home.mkdir()
    return {**kept, "HOME": str(home)}


@pytest.fixture
def kcr(tmp_path: Path, environment: Mapping[str, str]) -> Start:
    """Start `kcr`, or a Python program, with arguments, and kill what is left of it at the end."""
    count = 0

    @asynccontextmanager
    async def start(
        *arguments: str, terminal: int | None = None, folder: Path = ROOT, program: str = "", **variables: str
    ) -> AsyncIterator[Running]:
        nonlocal count
        count += 1
        out, err = tmp_path / f"{count}.out", tmp_path / f"{count}.err"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            command = (sys.executable, program) if program else (str(Path(sys.executable).with_name("kcr")),)
            process = await asyncio.create_subprocess_exec(
                *command, *arguments,
                cwd=folder, env={**environment, **variables}, stdout=stdout,
                stderr=stderr if terminal is None else terminal,
            )  # fmt: skip
        try:
            yield Running(process, out, err)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    return start
