"""The README of the development cluster: its commands and programs run, as a reader would paste them."""

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from kcr.testing import eventually
from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import ROOT, Start
from tests.kit.documents import blocks, files

README = ROOT / "devcluster" / "README.md"
KUBECTL, WITH_KOPF = (block.text for block in blocks(README) if block.language == "console")
KOPF = ("-m", "kopf", "run", "--standalone", "--namespace=default", "labels.py")

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio]


async def output_of(program: str, folder: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, program, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    return (await process.communicate())[0].decode()


async def test_program_with_its_own_cluster_lists_the_namespaces(tmp_path: Path) -> None:
    (tmp_path / "embedded.py").write_text(files(README)["embedded.py"])
    assert (await output_of("embedded.py", tmp_path)).split() == [
        "default", "kube-node-lease", "kube-public", "kube-system",
    ]  # fmt: skip


async def test_every_block_but_the_one_in_go_is_run() -> None:
    unnamed = [block.language for block in blocks(README) if not block.file]
    assert unnamed == ["", "console", "console", "go"]
    assert list(files(README)) == ["labels.py", "embedded.py"]


@pytest.mark.soak
@NEEDS_KUBECTL
async def test_kubectl_and_kopf_work_as_the_readme_says(
    kcr: Start, environment: Mapping[str, str], tmp_path: Path
) -> None:
    (tmp_path / "labels.py").write_text(files(README)["labels.py"])
    kubeconfig = tmp_path / "dev.kubeconfig"
    async with kcr("dev", "--kubeconfig", str(kubeconfig), folder=tmp_path) as dev:
        await eventually(kubeconfig.exists, seconds=20)
        kubectl = Kubectl(kubeconfig, environment)
        shown = await kubectl.in_shell(KUBECTL, tmp_path)
        assert "deployment.apps/web condition met" in shown
        assert shown.count("pod/web-") == 2
        variables = {**os.environ, **environment, "KUBECONFIG": str(kubeconfig)}
        operator = await asyncio.create_subprocess_exec(sys.executable, *KOPF, cwd=tmp_path, env=variables)
        try:
            assert (await kubectl.in_shell(WITH_KOPF, tmp_path)).endswith("condition met\nhello\n")
        finally:
            operator.kill()
            await operator.wait()
        assert await dev.stop() == 0
        assert not kubeconfig.exists()
