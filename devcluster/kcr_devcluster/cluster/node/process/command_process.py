"""A command in a container that is a process: started in the container's scope, its streams passed on.

It has a session of its own, and a terminal if it asks for one.
"""

import asyncio
import fcntl
import os
import pty
import signal
import struct
import termios
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from kcr_devcluster.cluster.node.commands import CommandStreams, ContainerCommand, TerminalSize
from kcr_devcluster.cluster.node.process.container_mounts import Mount, rewrite_paths
from kcr_devcluster.cluster.node.process.descriptors import DescriptorReader, DescriptorWriter
from kcr_devcluster.cluster.node.process.programs import check_program, check_program_inside, start_errors

# The output that an ended command left in its pipes is read; a process in its background may keep them open endlessly.
DRAIN_SECONDS = 1.0
# The type of terminals, as the programs in them see it.
# Source: containerd/internal/cri/server/container_execsync.go, execInternal; container_create.go.
TERM = "xterm"
# Signals that shells, `nohup` and programs that embed a cluster ignore. `subprocess` restores SIGPIPE, which Python
# ignores.
_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


class ContainerScope(NamedTuple):
    """The environment, the directory and the namespaces that the processes of a container share.

    Attributes:
        environment: All variables, with the one that marks the container's processes.
        directory: The working directory.
        enter: The words before a command that run it in the container's namespaces, and in its working directory
            there; empty where the container has no namespaces of its own.
        root: The root of its mount namespace, as this process sees it.
        replaced: Mounts of a container that has no mount namespace: in commands, their paths are replaced.
    """

    environment: Mapping[str, str]
    directory: Path
    enter: tuple[str, ...] = ()
    root: str = "/"
    replaced: tuple[Mount, ...] = ()


class _Ends(NamedTuple):
    """This side's ends of a command's streams; the terminal's descriptor is for its size only."""

    outputs: tuple[DescriptorReader, ...]
    stdin: DescriptorWriter | None
    terminal: int | None = None


class CommandProcess:
    """A command that runs.

    Attributes:
        left_behind: Whether processes of it may outlive it.
    """

    def __init__(self, process: asyncio.subprocess.Process, ends: _Ends) -> None:
        self._process = process
        self._ends = ends
        self.left_behind = False

    @property
    def pid(self) -> int:
        """The process id; also that of its session."""
        return self._process.pid

    def kill(self) -> None:
        """Send SIGKILL to its process group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def communicate(self, streams: CommandStreams) -> int:
        """Pass its streams on until it has ended, and return its exit code. It is killed when this is cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                inputs = [group.create_task(task) for task in self._inputs(streams)]
                outputs = [
                    group.create_task(self._pass_on(reader, streams, stderr=number > 0))
                    for number, reader in enumerate(self._ends.outputs)
                ]
                code = await self._process.wait()
                for reader in self._ends.outputs:
                    reader.limit_silence(DRAIN_SECONDS)
                await asyncio.wait(outputs)
                for task in inputs:
                    task.cancel()
        finally:
            if self._process.returncode is None:
                self.kill()
                await self._process.wait()
            # The jobs of an interactive shell have groups of their own.
            self.left_behind = self._ends.terminal is not None or _group_lives(self._process.pid)
        return code if code >= 0 else 128 - code

    def _inputs(self, streams: CommandStreams) -> Iterator[Coroutine[None, None, None]]:
        if self._ends.stdin is not None:
            yield self._feed(self._ends.stdin, streams)
        if self._ends.terminal is not None:
            yield self._resize(self._ends.terminal, streams)

    async def _feed(self, stdin: DescriptorWriter, streams: CommandStreams) -> None:
        with suppress(OSError):  # it reads no more
            while data := await streams.read():
                await stdin.write(data)
            if self._ends.terminal is None:
                stdin.close()
        while await streams.read():
            pass

    async def _resize(self, terminal: int, streams: CommandStreams) -> None:
        while True:
            set_size(terminal, await streams.next_size())

    async def _pass_on(self, reader: DescriptorReader, streams: CommandStreams, *, stderr: bool) -> None:
        try:
            while data := await reader.read():
                await streams.write(data, stderr=stderr)
        except ConnectionError:
            self.kill()


@asynccontextmanager
async def start_command(scope: ContainerScope, command: ContainerCommand) -> AsyncIterator[CommandProcess]:
    """Start a command; its streams are closed at the end of the context.

    Args:
        scope: The scope of its container.
        command: The command.

    Raises:
        StartError: It cannot be started.
        BusyError: It cannot be started now.
    """
    argv = rewrite_paths(command.argv, scope.replaced)
    if scope.enter:
        check_program_inside(argv[0], scope.environment, scope.directory, scope.root)
    else:
        check_program(argv[0], scope.environment, scope.directory)
    with ExitStack() as ours:
        with ExitStack() as theirs, start_errors(argv[0]):
            ends, stdin, stdout, stderr = _open_streams(command, ours, theirs)
            terminal = {"TERM": TERM} if command.tty else {}
            process = await asyncio.create_subprocess_exec(
                *scope.enter, *argv, stdin=stdin, stdout=stdout, stderr=stderr,
                env={**scope.environment, **terminal}, cwd="/" if scope.enter else scope.directory,
                start_new_session=True, preexec_fn=preparation(has_terminal=command.tty),
            )  # fmt: skip
        yield CommandProcess(process, ends)


@cache
def ignored_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that this process ignored when it first started one: asking each time would take a while."""
    return tuple(number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_IGN)


def preparation(*, has_terminal: bool) -> Callable[[], None] | None:
    """Return the preparation of a new process before it becomes its program; None for none, which is the fastest.

    Its standard input becomes the terminal of its session. And it does not ignore signals, such as Ctrl-C, because this
    process ignores them: handlers of signals end with `execve`, but ignored signals stay ignored.

    Args:
        has_terminal: Whether its standard input is a terminal of its own.
    """
    ignored = ignored_signals()
    return partial(_prepare, ignored, has_terminal) if ignored or has_terminal else None


def _prepare(ignored: Sequence[int], has_terminal: bool) -> None:  # called by subprocess
    # In the new process, which has one thread.
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    if has_terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _open_streams(command: ContainerCommand, ours: ExitStack, theirs: ExitStack) -> tuple[_Ends, int, int, int]:
    """Return this side's ends, and the command's standard input, output and error."""
    if command.tty:
        terminal, line = pty.openpty()
        reader = _reader(terminal, ours)
        theirs.callback(os.close, line)
        return _Ends((reader,), _writer(os.dup(terminal), ours), terminal), line, line, line
    stdin, writer = asyncio.subprocess.DEVNULL, None
    if command.stdin:
        stdin, write_end = os.pipe()
        theirs.callback(os.close, stdin)
        writer = _writer(write_end, ours)
    pipes = []
    for _ in ("stdout", "stderr"):
        read_end, write_end = os.pipe()
        theirs.callback(os.close, write_end)
        pipes.append((_reader(read_end, ours), write_end))
    (stdout_reader, stdout), (stderr_reader, stderr) = pipes
    return _Ends((stdout_reader, stderr_reader), writer), stdin, stdout, stderr


def _reader(descriptor: int, ours: ExitStack) -> DescriptorReader:
    reader = DescriptorReader(descriptor)
    ours.callback(reader.close)
    return reader


def _writer(descriptor: int, ours: ExitStack) -> DescriptorWriter:
    writer = DescriptorWriter(descriptor)
    ours.callback(writer.close)
    return writer


def set_size(terminal: int, size: TerminalSize) -> None:
    """Give a terminal a size; programs that run in it get SIGWINCH."""
    with suppress(OSError):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))


def _group_lives(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
