"""A process of `kcr`, and what it has printed so far."""

import asyncio
import os
import re
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path

from kcr.testing import eventually

ROOT = Path(__file__).parents[2]
Start = Callable[..., AbstractAsyncContextManager["Running"]]
Serve = Callable[..., AbstractAsyncContextManager[Path]]


class Running:
    """A process, and what it has printed so far."""

    def __init__(self, process: asyncio.subprocess.Process, stdout: Path, stderr: Path) -> None:
        self.process = process
        self._stdout = stdout
        self._stderr = stderr

    @property
    def out(self) -> str:
        return self._stdout.read_text(encoding="utf-8")

    @property
    def err(self) -> str:
        return self._stderr.read_text(encoding="utf-8")

    @property
    def has_ended(self) -> bool:
        return self.process.returncode is not None

    async def kubeconfig(self) -> Path:
        """Wait until `kcr dev` serves, and return the kubeconfig that it names."""

        def named() -> str:
            assert self.process.returncode is None, self.err
            found = re.search(r"kubectl --kubeconfig (\S+) get", self.err)
            return found[1] if found else ""

        return Path(await eventually(named, seconds=60))

    async def ready(self) -> None:
        """Wait until the controllers of `kcr run` work."""

        def logged() -> bool:
            assert self.process.returncode is None, self.err
            return "ready: caches are synced, workers run" in self.err

        await eventually(logged, seconds=60)

    async def end(self) -> int:
        """Wait for the process to end, and return its exit code."""
        return await self.process.wait()

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, and return the exit code."""
        self.send(number)
        return await self.end()

    def send(self, number: signal.Signals) -> bool:
        """Send a signal; return whether the process was still there.

        `Process.send_signal` and `Process.kill` first poll the process. One that has just ended is reaped by that, and
        asyncio, which waits for it as well, reports exit code 255.
        """
        with suppress(ProcessLookupError):
            if self.process.returncode is None:
                os.kill(self.process.pid, number)
                return True
        return False
