"""A controller as a process: started by its command line, measured from outside."""

import asyncio
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

import psutil

# Placeholders of a command line.
KUBECONFIG, READY_FILE = "{kubeconfig}", "{ready_file}"
START_SECONDS = 60.0
END_SECONDS = 10.0


def kcr_run(controllers: str, *more: str) -> str:
    """Return the command line of `kcr run`, from the environment that this program runs in."""
    program = Path(sys.executable).with_name("kcr")
    return shlex.join(
        [str(program), "run", "--controllers", controllers, "--take-over", "--log-level", "warning", *more]
    ) + f" --kubeconfig {KUBECONFIG} --ready-file {READY_FILE}"  # fmt: skip


class Usage(NamedTuple):
    """What a process has used so far.

    Attributes:
        cpu_seconds: User and system time.
        resident: Bytes in memory now.
        peak: The most it ever was.
    """

    cpu_seconds: float
    resident: int
    peak: int


def usage(process: psutil.Process) -> Usage:
    """Return what a process has used so far."""
    cpu = process.cpu_times()
    resident = process.memory_info().rss
    peak = resident
    with suppress(OSError):  # where there is no /proc, the present must do
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                peak = int(line.split()[1]) * 1024
    return Usage(cpu.user + cpu.system, resident, peak)


class Controller:
    """A controller that runs for as long as its context lives.

    Attributes:
        ready_seconds: How long it took to say that it is ready; None when it has no way to.
        end_seconds: How long it took to end after SIGTERM, once it has.
    """

    def __init__(self, command: str, kubeconfig: Path, folder: Path, *, start_seconds: float = START_SECONDS) -> None:
        """Make one; it is not started yet.

        Args:
            command: Its command line, with `{kubeconfig}` and perhaps `{ready_file}`.
            kubeconfig: The API server.
            folder: For its log and its ready file.
            start_seconds: How long it may take to be ready.
        """
        self._start_seconds = start_seconds
        self.ready_seconds: float | None = None
        self.end_seconds = 0.0
        self._ready_file = folder / "ready"
        self._log = folder / "controller.log"
        self._says_ready = READY_FILE in command
        filled = command.replace(KUBECONFIG, str(kubeconfig)).replace(READY_FILE, str(self._ready_file))
        self._command = shlex.split(filled)
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        """Start it, and wait until it says that it is ready, if it will."""
        now = asyncio.get_running_loop().time
        self._ready_file.unlink(missing_ok=True)
        began = now()
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(*self._command, stdout=log, stderr=log)
        while self._says_ready and not self._ready_file.exists():
            self.check()
            if now() - began > self._start_seconds:
                await self.__aexit__()
                raise RuntimeError(
                    f"{self._command[0]} is not ready after {self._start_seconds:g} s: {self.last_words}"
                )
            await asyncio.sleep(0.01)
        self.ready_seconds = now() - began if self._says_ready else None
        return self

    async def __aexit__(self, *raised: object) -> None:
        """End it by SIGTERM, or by force."""
        assert self._process is not None
        if self._process.returncode is not None:
            return
        now = asyncio.get_running_loop().time
        began = now()
        self._process.terminate()
        try:
            async with asyncio.timeout(END_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
        self.end_seconds = now() - began

    @property
    def usage(self) -> Usage:
        """What it has used so far."""
        assert self._process is not None
        return usage(psutil.Process(self._process.pid))

    def check(self) -> None:
        """Raise RuntimeError when it runs no longer."""
        assert self._process is not None
        if self._process.returncode is not None:
            raise RuntimeError(f"{self._command[0]} ended with {self._process.returncode}: {self.last_words}")

    @property
    def last_words(self) -> str:
        """The end of what it has said."""
        return self._log.read_text(errors="replace")[-2000:].strip() or "it said nothing"
