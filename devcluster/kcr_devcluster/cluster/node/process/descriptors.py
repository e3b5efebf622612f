"""File descriptors of pipes and terminals, read and written on the event loop without a buffer in between.

A reader that is not asked reads nothing, so a slow reader slows the process down that writes: back-pressure.
"""

import asyncio
import os

CHUNK_BYTES = 64 * 1024


class DescriptorReader:
    """Reads from a descriptor, which it owns."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        # How long silence may last; None for no limit.
        self._silence_seconds: float | None = None
        self._waiting: asyncio.Timeout | None = None

    async def read(self) -> bytes:
        """Return the available data, waiting for some; empty at the end, or where silence lasted too long."""
        while True:
            try:
                return os.read(self._descriptor, CHUNK_BYTES)
            except BlockingIOError:
                if not await self._wait():
                    return b""
            except OSError:  # a terminal whose other end is closed
                return b""

    def limit_silence(self, seconds: float) -> None:
        """From now on, take so many seconds without output for the end."""
        self._silence_seconds = seconds
        if self._waiting is not None:
            self._waiting.reschedule(asyncio.get_running_loop().time() + seconds)

    async def _wait(self) -> bool:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._descriptor, _set, ready)
        try:
            async with asyncio.timeout(self._silence_seconds) as self._waiting:
                await ready
        except TimeoutError:
            return False
        finally:
            self._waiting = None
            loop.remove_reader(self._descriptor)
        return True

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)


class DescriptorWriter:
    """Writes to a descriptor, which it owns."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        # -1 once it is closed.
        self._descriptor = descriptor
        # Held while data is written, so that the data of several clients is not mixed up.
        self._writing = asyncio.Lock()
        self._waiting: asyncio.Future[None] | None = None

    async def write(self, data: bytes) -> None:
        """Write all of the data, waiting until there is room.

        Raises:
            OSError: It is closed, or its reader has closed the other end.
        """
        view = memoryview(data)
        async with self._writing:
            while view:
                if self._descriptor < 0:
                    raise BrokenPipeError
                try:
                    view = view[os.write(self._descriptor, view) :]
                except BlockingIOError:
                    await self._wait()

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        loop.add_writer(self._descriptor, _set, self._waiting)
        try:
            await self._waiting
        finally:
            self._waiting = None
            if self._descriptor >= 0:
                loop.remove_writer(self._descriptor)

    def close(self) -> None:
        """Close the descriptor: its reader finds the end of the file. A write that waits fails."""
        if self._descriptor < 0:
            return
        descriptor, self._descriptor = self._descriptor, -1
        if self._waiting is not None:
            asyncio.get_running_loop().remove_writer(descriptor)
            _set(self._waiting)
        os.close(descriptor)


def _set(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
