"""The console of a container that is a process: its standard input, and its output from an attach on."""

import asyncio
import os
import pty
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from typing import NamedTuple

from kcr_devcluster.cluster.node.commands import CommandStreams
from kcr_devcluster.cluster.node.logs import Log
from kcr_devcluster.cluster.node.pods import KubeletContainer
from kcr_devcluster.cluster.node.process.command_process import set_size
from kcr_devcluster.cluster.node.process.descriptors import CHUNK_BYTES, DescriptorWriter


class Console:
    """A container's streams, to which clients attach.

    Output comes from the log, so a client that does not read slows nothing down.
    """

    def __init__(
        self, log: Log, stdin: DescriptorWriter | None = None, terminal: int | None = None, *, stdin_once: bool = False
    ) -> None:
        """Make a console.

        Args:
            log: The output of the container.
            stdin: Its standard input; None where it has none.
            terminal: Its terminal, for the size; None where it has none.
            stdin_once: Whether its standard input ends with that of the first client.
        """
        self._log = log
        self._stdin = stdin
        self._terminal = terminal
        self._stdin_once = stdin_once and terminal is None

    @property
    def has_terminal(self) -> bool:
        """Whether the container has a terminal."""
        return self._terminal is not None

    async def attach(self, streams: CommandStreams, *, stdin: bool) -> None:
        """Pass on the output that comes from now on, until the container ends; and input to it.

        Args:
            streams: The client's.
            stdin: Whether the client has input.
        """
        async with asyncio.TaskGroup() as group:
            inputs = []
            if stdin and self._stdin is not None:
                inputs.append(group.create_task(self._feed(self._stdin, streams)))
            if self._terminal is not None:
                inputs.append(group.create_task(self._resize(streams)))
            try:
                await self._show(streams)
            finally:
                for task in inputs:
                    task.cancel()

    async def _show(self, streams: CommandStreams) -> None:
        with suppress(ConnectionError):
            async for data in self._log.follow(from_now=True):
                for start in range(0, len(data), CHUNK_BYTES):
                    await streams.write(data[start : start + CHUNK_BYTES])

    async def _feed(self, stdin: DescriptorWriter, streams: CommandStreams) -> None:
        """Write to the standard input, whose end is that of the first client's where the pod says so.

        Source: containerd/internal/cri/io/container_io.go, Attach.
        """
        try:
            with suppress(OSError):  # the container reads no more
                while data := await streams.read():
                    await stdin.write(data)
        finally:
            if self._stdin_once:
                stdin.close()
        while await streams.read():
            pass

    async def _resize(self, streams: CommandStreams) -> None:
        while True:
            size = await streams.next_size()
            if self._terminal is not None:
                set_size(self._terminal, size)

    def close(self) -> None:
        """Close the standard input, at the end of the container."""
        self._terminal = None
        if self._stdin is not None:
            self._stdin.close()


class ContainerStreams(NamedTuple):
    """The streams of a container that is started: this side's ends, and the descriptors that it gets.

    Attributes:
        output: Where its output is read.
        stdin: Its standard input.
        stdout: Its standard output and error.
        console: The console that clients attach to.
    """

    output: FileIO
    stdin: int
    stdout: int
    console: Console


@contextmanager
def open_streams(container: KubeletContainer, log: Log) -> Iterator[ContainerStreams]:
    """Open the streams of a container; its ends are closed when the context ends, the console as well on errors."""
    with ExitStack() as theirs, ExitStack() as ours:
        if container.tty:
            read_end, line = pty.openpty()
            theirs.callback(os.close, line)
            output = FileIO(read_end)
            terminal = os.dup(read_end)
            console = Console(log, DescriptorWriter(terminal), terminal)
            stdin = stdout = line
        else:
            read_end, stdout = os.pipe()
            theirs.callback(os.close, stdout)
            output = FileIO(read_end)
            stdin, console = asyncio.subprocess.DEVNULL, Console(log)
            if container.stdin:
                stdin, write_end = os.pipe()
                theirs.callback(os.close, stdin)
                console = Console(log, DescriptorWriter(write_end), stdin_once=container.stdin_once)
        ours.callback(console.close)
        yield ContainerStreams(output, stdin, stdout, console)
        ours.pop_all()
