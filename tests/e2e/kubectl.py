"""The real kubectl, on the cluster of one `kcr dev`."""

import asyncio
import os
import pty
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from kcr.testing import eventually
from tests.e2e.processes import ROOT

NEEDS_KUBECTL = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH")


class Kubectl:
    """Calls kubectl with the kubeconfig of one cluster."""

    def __init__(self, kubeconfig: Path, environment: Mapping[str, str]) -> None:
        self._environment = {**environment, "KUBECONFIG": str(kubeconfig)}

    async def start(
        self, command: str, *arguments: str, stdin: int | None = None, **variables: str
    ) -> asyncio.subprocess.Process:
        """Start a command that goes on until it is killed; arguments after its words may hold blanks."""
        return await asyncio.create_subprocess_exec(
            "kubectl", *command.split(), *arguments, cwd=ROOT, env={**self._environment, **variables}, stdin=stdin,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip

    async def __call__(self, command: str, *arguments: str, code: int = 0, typed: str = "", **variables: str) -> str:
        """Run a command with some input, check its exit code, and return what it printed, stderr included."""
        process = await self.start(command, *arguments, stdin=asyncio.subprocess.PIPE, **variables)
        text = (await process.communicate(typed.encode()))[0].decode()
        assert process.returncode == code, text
        return text

    async def in_shell(self, script: str, folder: Path) -> str:
        """Run the lines of a script in a folder, and return what they printed; each of them must succeed."""
        process = await asyncio.create_subprocess_exec(
            "sh", "-e", "-c", script, cwd=folder, env=self._environment,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        text = (await process.communicate())[0].decode()
        assert process.returncode == 0, text
        return text

    async def in_terminal(self, command: str, *arguments: str, wait_for: str, typed: str, code: int = 0) -> str:
        """Run a command in a terminal, type once a text is there, check its exit code, and return what was shown."""
        ours, theirs = pty.openpty()
        process = await asyncio.create_subprocess_exec(
            "kubectl", *command.split(), *arguments, env={**self._environment, "TERM": "xterm"},
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        shown = bytearray()

        def read() -> None:
            with suppress(OSError):  # kubectl has ended
                while data := os.read(ours, 4096):
                    shown.extend(data)

        reading = asyncio.to_thread(read)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(reading)
            await eventually(lambda: wait_for.encode() in shown)
            os.write(ours, typed.encode())
            await process.wait()
            await task
        os.close(ours)
        text = shown.decode()
        assert process.returncode == code, text
        return text
