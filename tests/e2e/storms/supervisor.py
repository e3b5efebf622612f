"""Programs that are started again whenever they end, and what strikes them."""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from random import Random

from tests.e2e.processes import Running

# A program that is told to stop has five seconds for it; a busy machine may double that.
STOP_SECONDS = 10.0


class Supervised:
    """A program that is started again whenever it ends, as a Deployment does.

    Attributes:
        current: Its present process; None between two.
        runs: All that there were, in order.
        codes: How often it ended with each exit code.
        blows: How often it was struck with each signal.
        longest_stop: How many seconds it took to stop, at most.
    """

    def __init__(
        self, start: Callable[[int], AbstractAsyncContextManager[Running]], random: Random, *, rest: float = 1.0
    ) -> None:
        """Make it; `run` runs it.

        Args:
            start: Starts the process of a number.
            random: Draws the pauses.
            rest: The longest pause before it is started again, in seconds.
        """
        self.current: Running | None = None
        self.runs: list[Running] = []
        self.codes: Counter[int] = Counter()
        self.blows: Counter[str] = Counter()
        self.longest_stop = 0.0
        self._start = start
        self._random = random
        self._rest = rest

    async def run(self) -> None:
        """Run one process after the other until cancelled."""
        while True:
            async with self._start(len(self.runs)) as process:
                self.current = process
                self.runs.append(process)
                code = await process.end()
                self.current = None
                self.codes[code] += 1
            await asyncio.sleep(self._rest * self._random.random())

    def has_said(self, words: str) -> bool:
        """Whether the present process has printed these words."""
        return self.current is not None and words in self.current.err

    async def kill(self) -> None:
        """Kill the process as the kernel does, without a word."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """Tell the process to stop, and wait for its end."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self._end(signal.SIGTERM)
        self.longest_stop = max(self.longest_stop, loop.time() - began)

    async def freeze(self, seconds: float) -> None:
        """Stop the process for a while as if its machine slept."""
        process = self.current
        if process is not None and self._send(process, signal.SIGSTOP):
            try:
                await asyncio.sleep(seconds)
            finally:
                self._send(process, signal.SIGCONT)

    async def _end(self, number: signal.Signals) -> None:
        process = self.current
        if process is not None and self._send(process, number):
            async with asyncio.timeout(STOP_SECONDS):
                await process.end()

    def _send(self, process: Running, number: signal.Signals) -> bool:
        was_sent = process.send(number)
        self.blows[number.name] += was_sent
        return was_sent
