"""Processes of containers: started in a session of their own, read from, ended together; and those that escaped."""

import asyncio
import errno
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from kcr.cluster.node.logs import Log

# What a process that has ended left in its pipe is read at once; but a child that went into a session of
# its own may hold the pipe open for ever.
DRAIN_SECONDS = 1.0
PROCESSES = Path("/proc")
_SHORTAGES = frozenset({errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class StartError(Exception):
    """A program cannot be started; the message says why."""


class BusyError(Exception):
    """The machine cannot start another process just now; the message says what it is short of."""


class _Output(asyncio.Protocol):
    """Writes the output that a pipe delivers to a log."""

    def __init__(self, log: Log, ended: asyncio.Future[None]) -> None:
        self._log = log
        self._ended = ended

    def data_received(self, data: bytes) -> None:
        self._log.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._ended.done():
            self._ended.set_result(None)


class ProcessRun:
    """A process with everything it starts: a session and group of its own, one pipe for all its output.

    Attributes:
        left_behind: Whether something outlived the process and its group: it still holds the pipe.
    """

    ready_after_seconds = 0.0

    def __init__(
        self, process: asyncio.subprocess.Process, output: asyncio.BaseTransport, drained: asyncio.Future[None]
    ) -> None:
        self._process = process
        self._output = output
        self._drained = drained
        self.left_behind = False

    def terminate(self) -> None:
        """Send SIGTERM to all of its processes."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to all of its processes."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    async def wait(self) -> int:
        """Return the exit code once the process has ended; 128 plus the signal when one ended it.

        Its group ends with it, also when the waiting is cancelled.
        """
        try:
            code = await self._process.wait()
            self.kill()
            await asyncio.wait({self._drained}, timeout=DRAIN_SECONDS)
            self.left_behind = not self._drained.done()
        finally:
            if self._process.returncode is None:
                self.kill()
                await self._process.wait()
            self._output.close()
        return code if code >= 0 else 128 - code


async def spawn(argv: tuple[str, ...], environment: Mapping[str, str], directory: Path, log: Log) -> ProcessRun:
    """Start a program.

    Args:
        argv: What to run; the first word is looked for in the environment's PATH.
        environment: All of its variables.
        directory: Where it starts.
        log: Where everything it prints goes.

    Raises:
        StartError: It cannot be started.
        BusyError: It cannot be started now.
    """
    _check(argv[0], environment, directory)
    try:
        return await _spawn(argv, environment, directory, log)
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None) in _SHORTAGES:
            raise BusyError(f'exec: "{argv[0]}": {error}') from error
        raise StartError(f'exec: "{argv[0]}": {getattr(error, "strerror", None) or error}') from error


async def _spawn(argv: tuple[str, ...], environment: Mapping[str, str], directory: Path, log: Log) -> ProcessRun:
    loop = asyncio.get_running_loop()
    drained: asyncio.Future[None] = loop.create_future()
    # A pipe of our own: asyncio's would tie the end of the process to the end of its output.
    read_end, write_end = os.pipe()
    try:
        output, _ = await loop.connect_read_pipe(lambda: _Output(log, drained), os.fdopen(read_end, "rb", buffering=0))
        try:
            process = await asyncio.create_subprocess_exec(
                *argv, stdin=asyncio.subprocess.DEVNULL, stdout=write_end, stderr=write_end,
                env=environment, cwd=directory, start_new_session=True,
            )  # fmt: skip
        except BaseException:
            output.close()
            raise
    finally:
        os.close(write_end)
    return ProcessRun(process, output, drained)


def _check(program: str, environment: Mapping[str, str], directory: Path) -> None:
    if not directory.is_dir():
        raise StartError(f'working directory "{directory}": no such directory')
    if "/" not in program:
        if shutil.which(program, path=environment.get("PATH", os.defpath)) is None:
            raise StartError(f'exec: "{program}": executable file not found in $PATH')
    elif not (directory / program).exists():
        raise StartError(f'exec: "{program}": no such file or directory')
    elif not os.access(directory / program, os.X_OK) or (directory / program).is_dir():
        raise StartError(f'exec: "{program}": permission denied')


@contextmanager
def process_descriptors() -> Iterator[None]:
    """Have asyncio wait for processes without a thread for each, as it does by itself from Python 3.12 on."""
    if sys.version_info >= (3, 12) or not _has_process_descriptors():
        yield
        return
    before = asyncio.get_child_watcher()
    watcher = asyncio.PidfdChildWatcher()
    watcher.attach_loop(asyncio.get_running_loop())
    asyncio.set_child_watcher(watcher)
    try:
        yield
    finally:
        asyncio.set_child_watcher(before)


def _has_process_descriptors() -> bool:
    if not hasattr(os, "pidfd_open"):
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:  # kernels before 5.3
        return False
    return True


def kill_orphaned_processes(marker: bytes) -> None:
    """Kill this user's processes that left their container's session: their environment still tells where they began.

    One of their variables begins with `marker`, such as `NAME=value`. Where the system shows no environments (only
    Linux does) nothing happens.
    """
    for pid in orphaned_processes(marker):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def orphaned_processes(marker: bytes) -> Iterator[int]:
    """Yield the processes one of whose variables begins with `marker`."""
    try:
        entries = list(PROCESSES.iterdir())
    except OSError:
        return
    own = os.getpid()
    for entry in entries:
        if entry.name.isdigit() and int(entry.name) != own and _is_marked(entry / "environ", marker):
            yield int(entry.name)


def _is_marked(environment: Path, marker: bytes) -> bool:
    try:
        variables = environment.read_bytes().split(b"\0")
    except OSError:  # it has ended, or is another user's
        return False
    return any(variable.startswith(marker) for variable in variables)
