"""Commands in a running container: a container runtime runs them for exec, probes and lifecycle hooks."""

import asyncio
from typing import NamedTuple, Protocol

# How much of a short command's output is kept.
# Source: kubernetes/pkg/probe/exec/exec.go, maxReadLength.
MAX_OUTPUT_BYTES = 10 * 1024


class CommandError(Exception):
    """A command cannot be started in a container; the message says why."""


class TerminalSize(NamedTuple):
    """The size of a terminal, in characters."""

    columns: int
    rows: int


class ContainerCommand(NamedTuple):
    """A command to run in a container.

    Attributes:
        argv: The program and its arguments; no shell is involved.
        stdin: Whether it has standard input; without, it reads an end of file.
        tty: Whether it has a terminal; all of its output is standard output then.
    """

    argv: tuple[str, ...]
    stdin: bool = False
    tty: bool = False


class CommandStreams(Protocol):
    """The other end of a command's streams. Each method provides back-pressure by not returning."""

    async def read(self) -> bytes:
        """Wait for more standard input; empty at its end. Not called where the command has none."""
        ...

    async def write(self, data: bytes, *, stderr: bool = False) -> None:
        """Take over output.

        Raises:
            ConnectionError: The reader has disconnected; the command is killed.
        """
        ...

    async def next_size(self) -> TerminalSize:
        """Wait for the next size of the terminal. Called only where there is one."""
        ...


class CommandRunner(Protocol):
    """A container in which commands can be run."""

    async def exec(self, command: ContainerCommand, streams: CommandStreams) -> int:
        """Run a command in the container, and return its exit code; 128 plus the signal when one ended it.

        It has the container's environment, working directory and namespaces. It is killed when the container ends, and
        when this is cancelled. Processes that it left in the background stay until the container ends.

        Raises:
            CommandError: It cannot be started, or the container does not run any more.
        """
        ...


class CommandResult(NamedTuple):
    """How a short command ended.

    Attributes:
        code: Its exit code; 128 plus the signal when one ended it.
        output: Standard output and error together, the first `MAX_OUTPUT_BYTES`.
    """

    code: int
    output: bytes


class _CollectedOutput:
    def __init__(self) -> None:
        self.data = bytearray()

    async def read(self) -> bytes:
        return b""

    async def write(self, data: bytes, *, stderr: bool = False) -> None:
        self.data += data[: MAX_OUTPUT_BYTES - len(self.data)]

    async def next_size(self) -> TerminalSize:
        raise AssertionError("no terminal")


async def exec_sync(
    container: CommandRunner, argv: tuple[str, ...], *, timeout_seconds: float | None = None
) -> CommandResult:
    """Run a command without standard input in a container, and wait for its end.

    Args:
        container: A container that runs.
        argv: The program and its arguments.
        timeout_seconds: How long it may take; None for no limit.

    Raises:
        CommandError: It cannot be started, or the container does not run any more.
        TimeoutError: It took too long, and has been killed.

    Source: kubernetes/staging/src/k8s.io/cri-api, RuntimeService.ExecSync.
    """
    collected = _CollectedOutput()
    async with asyncio.timeout(timeout_seconds):
        code = await container.exec(ContainerCommand(argv), collected)
    return CommandResult(code, bytes(collected.data))
