"""The real kubectl, on the cluster of one `kcr dev`."""

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e.processes import ROOT

NEEDS_KUBECTL = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH")


class Kubectl:
    """Calls kubectl with the kubeconfig of one cluster."""

    def __init__(self, kubeconfig: Path, environment: Mapping[str, str]) -> None:
        self._environment = {**environment, "KUBECONFIG": str(kubeconfig)}

    async def start(self, command: str, *arguments: str) -> asyncio.subprocess.Process:
        """Start a command that goes on until it is killed; arguments after its words may hold blanks."""
        return await asyncio.create_subprocess_exec(
            "kubectl", *command.split(), *arguments, cwd=ROOT, env=self._environment,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip

    async def __call__(self, command: str, *arguments: str, code: int = 0) -> str:
        """Run a command, check its exit code, and return what it printed, stderr included."""
        process = await self.start(command, *arguments)
        text = (await process.communicate())[0].decode()
        assert process.returncode == code, text
        return text
