"""Processes of a container: what they have of the process that starts them."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcr.clock import SystemClock
from kcr_devcluster.cluster.node.commands import exec_sync
from kcr_devcluster.cluster.node.logs import Log
from kcr_devcluster.cluster.node.pods import KubeletContainer
from kcr_devcluster.cluster.node.process.command_process import ContainerScope, ignored_signals
from kcr_devcluster.cluster.node.process.processes import ProcessRun, spawn

pytestmark = pytest.mark.asyncio
INTERRUPTED = 128 + signal.SIGINT


@pytest.fixture
def ignored() -> Iterator[None]:
    # As for what a shell without job control starts in the background.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    ignored_signals.cache_clear()
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        ignored_signals.cache_clear()


async def start(script: str, container: KubeletContainer | None = None) -> ProcessRun:
    scope = ContainerScope({"PATH": os.environ["PATH"]}, Path("/"))
    return await spawn(("sh", "-c", script), scope, container or KubeletContainer(), Log(SystemClock()))


@pytest.mark.usefixtures("ignored")
@pytest.mark.parametrize("tty", [False, True], ids=["pipe", "terminal"])
async def test_ignored_interrupt_ends_a_container(tty: bool) -> None:
    run = await start("kill -INT $$", KubeletContainer(stdin=tty, tty=tty))
    assert await run.wait() == INTERRUPTED


@pytest.mark.usefixtures("ignored")
async def test_ignored_interrupt_ends_a_command() -> None:
    run = await start("sleep 60")
    try:
        assert (await exec_sync(run, ("sh", "-c", "kill -INT $$"))).code == INTERRUPTED
    finally:
        run.kill()
        await run.wait()
