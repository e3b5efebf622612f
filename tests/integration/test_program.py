import asyncio
import os
import sys
from pathlib import Path

import pytest

from kcr.api.core import Namespace
from kcr.api.meta import ObjectMeta
from kcr.embedded import EmbeddedCluster
from kcr.testing import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60), pytest.mark.asyncio]

PROGRAM = """
import kcr
from kcr.api.core import Namespace


class Greeter:
    def __init__(self, manager: kcr.Manager) -> None:
        self._client = manager.client

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        await self._client.merge_patch(Namespace, key, {"metadata": {"labels": {"greeted": "yes"}}})
        return kcr.Result()


def setup(manager: kcr.Manager) -> None:
    manager.add_controller("greeter", Greeter(manager), watches=[kcr.watch(Namespace)])


kcr.run(setup)
"""


async def start(kubeconfig: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, env={**os.environ, "KUBECONFIG": str(kubeconfig)}, stderr=asyncio.subprocess.PIPE
    )


async def test_program_of_thirty_lines_is_a_controller(tmp_path: Path) -> None:
    async with EmbeddedCluster(runtime=None) as cluster:
        address = await cluster.serve()
        (tmp_path / "kubeconfig").write_text(address.kubeconfig)
        process = await start(tmp_path / "kubeconfig")
        try:
            await cluster.client.create(Namespace(metadata=ObjectMeta(name="team")))

            async def greeted() -> bool:
                return "greeted" in (await cluster.client.get(Namespace, "team")).metadata.labels

            await eventually(greeted)
        finally:
            process.terminate()
        _, stderr = await process.communicate()
        assert process.returncode == 0, stderr.decode()
        assert b"Traceback" not in stderr


async def test_program_without_configuration_ends_with_one_line(tmp_path: Path) -> None:
    process = await start(tmp_path / "missing")
    _, stderr = await process.communicate()
    assert process.returncode == 1
    (line,) = stderr.decode().splitlines()
    assert "missing" in line
