"""Processes of containers: started in a session of their own, read from, ended together; and those that escaped."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from kcr_devcluster.cluster.node.commands import CommandError, CommandStreams, ContainerCommand
from kcr_devcluster.cluster.node.logs import Log
from kcr_devcluster.cluster.node.pods import KubeletContainer
from kcr_devcluster.cluster.node.process.command_process import (
    CommandProcess,
    ContainerScope,
    preparation,
    start_command,
)
from kcr_devcluster.cluster.node.process.console import Console, open_streams
from kcr_devcluster.cluster.node.process.container_mounts import MountNamespace
from kcr_devcluster.cluster.node.process.descriptors import DescriptorReader
from kcr_devcluster.cluster.node.process.programs import BusyError, StartError, check_program, start_errors

# The output that an ended process left in its pipe is read at once; but a child in a session of its own may keep the
# pipe open endlessly.
DRAIN_SECONDS = 1.0
PROCESSES = Path("/proc")


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
        left_behind: Whether something outlived the process and its group: it still holds the pipe, or a command
            started it.
        scope: The scope that commands in the container share with it.
        is_out_of_memory: Whether it has been killed because it used too much memory.
    """

    ready_after_seconds = 0.0

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        output: asyncio.BaseTransport,
        drained: asyncio.Future[None],
        scope: ContainerScope,
        console: Console,
    ) -> None:
        self._process = process
        self._output = output
        self._drained = drained
        self._commands: set[CommandProcess] = set()
        self._console = console
        self.scope = scope
        # The jobs of a shell have groups of their own.
        self.left_behind = console.has_terminal
        self.is_out_of_memory = False

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def sessions(self) -> tuple[int, ...]:
        """The sessions that its processes are in: its own, and those of commands that run in the container."""
        return (self.pid, *(command.pid for command in self._commands))

    def terminate(self) -> None:
        """Send SIGTERM to all of its processes."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to all of its processes."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    async def exec(self, command: ContainerCommand, streams: CommandStreams) -> int:
        """Run a command in the container; see `RunningContainer`."""
        if self._process.returncode is not None:
            raise CommandError("the container does not run any more")
        try:
            async with start_command(self.scope, command) as process:
                return await self._accompany(process, streams)
        except (StartError, BusyError) as error:
            raise CommandError(str(error)) from error

    async def attach(self, streams: CommandStreams, *, stdin: bool) -> None:
        """Pass on the container's output and input; see `RunningContainer`."""
        await self._console.attach(streams, stdin=stdin)

    async def _accompany(self, process: CommandProcess, streams: CommandStreams) -> int:
        self._commands.add(process)
        if self._process.returncode is not None:
            process.kill()
        try:
            return await process.communicate(streams)
        finally:
            self._commands.discard(process)
            self.left_behind |= process.left_behind

    async def wait(self) -> int:
        """Return the exit code once the process has ended; 128 plus the signal when one ended it.

        Its group ends with it, also when the waiting is cancelled.
        """
        try:
            code = await self._process.wait()
            self.kill()
            # Processes that a command has started in the background are in no group that is known here.
            self.left_behind |= bool(self._commands)
            await asyncio.wait({self._drained}, timeout=DRAIN_SECONDS)
            self.left_behind |= not self._drained.done()
        finally:
            if self._process.returncode is None:
                self.kill()
                await self._process.wait()
            for command in self._commands:
                command.kill()
            self._console.close()
            self._output.close()
        return code if code >= 0 else 128 - code


async def spawn(
    argv: tuple[str, ...],
    scope: ContainerScope,
    container: KubeletContainer,
    log: Log,
    namespace: MountNamespace | None = None,
) -> ProcessRun:
    """Start the program of a container.

    Args:
        argv: The argument vector; the first word is searched for in the environment's PATH.
        scope: Its environment, and where it starts.
        container: Says whether it has standard input and a terminal.
        log: Receives everything that it prints.
        namespace: The mount namespace that it gets, in which program and directory are searched for; None for none.

    Raises:
        StartError: It cannot be started.
        BusyError: It cannot be started now.
    """
    if namespace is None:
        check_program(argv[0], scope.environment, scope.directory)
        with start_errors(argv[0]):
            return await _spawn(argv, scope, container, log)
    read_end, write_end = os.pipe()
    with ExitStack() as ours, start_errors(argv[0]):
        report = DescriptorReader(read_end)
        ours.callback(report.close)
        try:
            words = (*namespace.starter(write_end, str(scope.directory)), *argv)
            run = await _spawn(words, scope._replace(directory=Path("/")), container, log, pass_fds=(write_end,))
        finally:
            os.close(write_end)
        run.scope = scope._replace(enter=namespace.enter(run.pid, scope.directory), root=f"/proc/{run.pid}/root")
        try:
            why = await report.read()
        except BaseException:
            run.kill()
            await run.wait()
            raise
        if why:
            await run.wait()
            raise StartError(why.decode(errors="replace"))
        return run


async def _spawn(
    argv: tuple[str, ...],
    scope: ContainerScope,
    container: KubeletContainer,
    log: Log,
    pass_fds: tuple[int, ...] = (),
) -> ProcessRun:
    loop = asyncio.get_running_loop()
    drained: asyncio.Future[None] = loop.create_future()
    # A pipe of our own: asyncio's would tie the end of the process to the end of its output.
    with open_streams(container, log) as streams:
        output, _ = await loop.connect_read_pipe(lambda: _Output(log, drained), streams.output)
        try:
            process = await asyncio.create_subprocess_exec(
                *argv, stdin=streams.stdin, stdout=streams.stdout, stderr=streams.stdout,
                env=scope.environment, cwd=scope.directory, start_new_session=True, pass_fds=pass_fds,
                preexec_fn=preparation(has_terminal=streams.console.has_terminal),
            )  # fmt: skip
        except BaseException:
            output.close()
            raise
    return ProcessRun(process, output, drained, scope, streams.console)


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
