"""The other end of a command's streams, in tests."""

import asyncio

from kcr_devcluster.cluster.node.commands import TerminalSize


class RecordedStreams:
    """Standard input is what the test puts there; output is recorded."""

    def __init__(self) -> None:
        self.stdin: asyncio.Queue[bytes] = asyncio.Queue()
        self.sizes: asyncio.Queue[TerminalSize] = asyncio.Queue()
        self.out = b""
        self.err = b""
        self.writing = asyncio.Event()
        # Output waits until this is set; the other end is gone where it is None.
        self.reads: asyncio.Event | None = asyncio.Event()
        self.reads.set()

    def type(self, text: str) -> None:
        self.stdin.put_nowait(text.encode())

    async def read(self) -> bytes:
        return await self.stdin.get()

    async def write(self, data: bytes, *, stderr: bool = False) -> None:
        if self.reads is None:
            raise ConnectionResetError
        self.writing.set()
        await self.reads.wait()
        if stderr:
            self.err += data
        else:
            self.out += data

    async def next_size(self) -> TerminalSize:
        return await self.sizes.get()
