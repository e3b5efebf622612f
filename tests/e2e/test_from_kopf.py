"""The guide for those who come from kopf: both operators run, and the objects move from one to the other."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from kcr.testing import eventually
from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import ROOT, Start
from tests.kit.documents import blocks, files

GUIDE = ROOT / "docs" / "guide" / "from-kopf.md"
PREPARE, MOVE, LEFT = ([*block.text.splitlines()] for block in blocks(GUIDE) if block.language == "console")
KOPF = "kopf.zalando.org/KopfFinalizerMarker"
FINALIZERS = "-o jsonpath={.metadata.finalizers}"
NOTE = "{{apiVersion: example.dev/v1, kind: Note, metadata: {{name: {name}}}, spec: {{text: three words here}}}}\n"

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio, NEEDS_KUBECTL]


class Program:
    """A program of the guide, and what it has printed."""

    def __init__(self, process: asyncio.subprocess.Process, output: Path) -> None:
        self._process = process
        self._output = output

    @property
    def out(self) -> str:
        return self._output.read_text()

    async def stop(self) -> None:
        if self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()


@asynccontextmanager
async def running(command: str, environment: Mapping[str, str], folder: Path) -> AsyncIterator[Program]:
    output = folder / f"{command.split(maxsplit=1)[0]}.out"
    with output.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *command.split(), cwd=folder, env=environment, stdout=out, stderr=out, start_new_session=True
        )
    program = Program(process, output)
    try:
        yield program
    finally:
        await program.stop()


@pytest.mark.soak
async def test_objects_move_while_both_operators_run(
    environment: Mapping[str, str], kcr: Start, tmp_path: Path
) -> None:
    for name, text in files(GUIDE).items():
        (tmp_path / name).write_text(text)
    (tmp_path / "notes.yaml").write_text(
        "---\n" + "---\n".join(NOTE.format(name=name) for name in ("first", "second", "left"))
    )
    generate, apply, with_kopf, with_kcr = PREPARE
    first, others, annotation = MOVE
    look, repair = LEFT
    async with kcr("dev", "--no-controllers") as dev, AsyncExitStack() as stack:
        kubeconfig = await dev.kubeconfig()
        path = f"{Path(sys.executable).parent}:{environment['PATH']}"
        env = {**environment, "PATH": path, "KUBECONFIG": str(kubeconfig), "PYTHONUNBUFFERED": "1"}
        kubectl = Kubectl(kubeconfig, env)
        await kubectl.in_shell(f"{generate}\n{apply}\nkubectl apply -f notes.yaml", tmp_path)
        kopf = await stack.enter_async_context(running(with_kopf, env, tmp_path))

        async def counted(name: str) -> bool:
            return await kubectl(f"get note {name} -o jsonpath={{.status.words}}") == "3"

        async def kept_by(name: str, finalizer: str) -> bool:
            return await kubectl(f"get note {name} {FINALIZERS}") == f'["{finalizer}"]'

        for name in ("first", "second", "left"):
            await eventually(partial(counted, name), seconds=30)
            await eventually(partial(kept_by, name, KOPF), seconds=30)
        ours = await stack.enter_async_context(running(with_kcr, env, tmp_path))
        await kubectl.in_shell(first, tmp_path)
        await eventually(lambda: kept_by("first", "example.dev/archive"), seconds=30)
        await eventually(lambda: "looked at first" in ours.out, seconds=30)
        assert "looked at second" not in ours.out
        assert "last-handled-configuration" in await kubectl("get note first -o yaml")
        await kubectl("delete note first --timeout=30s")
        assert "archived first" in ours.out
        assert "archived first" not in kopf.out

        await kopf.stop()
        assert "KopfFinalizerMarker" in await kubectl.in_shell(look, tmp_path)
        await kubectl.in_shell(repair, tmp_path)
        await kubectl("delete note left --timeout=30s")
        await stack.enter_async_context(running(with_kopf, env, tmp_path))
        await kubectl.in_shell(f"{others}\n{annotation}", tmp_path)
        await eventually(lambda: kept_by("second", "example.dev/archive"), seconds=30)
        assert "kopf" not in await kubectl("get note second -o yaml")
