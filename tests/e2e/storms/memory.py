"""Resident memory of processes over time, and whether it is flat."""

import asyncio
from statistics import median

from kcr_devcluster.cluster.node.usage.proc import resident_bytes
from tests.e2e.storms.supervisor import Supervised

SAMPLE_SECONDS = 0.25


class MemorySamples:
    """Samples of a program's processes, one after the other."""

    def __init__(self, program: Supervised) -> None:
        self._program = program
        # Of each process by its id, in bytes.
        self.samples: dict[int, list[int]] = {}

    async def run(self) -> None:
        """Take samples until cancelled."""
        while True:
            if self._program.current is not None:
                pid = self._program.current.process.pid
                if resident := resident_bytes(pid):
                    self.samples.setdefault(pid, []).append(resident)
            await asyncio.sleep(SAMPLE_SECONDS)

    @property
    def most(self) -> int:
        """The most that any of them had."""
        return max(map(max, self.samples.values()), default=0)

    @property
    def growth(self) -> int:
        """By how much the median of the last process's last third is above that of the third before it.

        The first third is left out: caches fill, and the allocator gets its arenas.
        """
        samples = [*self.samples.values()][-1]
        third = len(samples) // 3
        return int(median(samples[-third:]) - median(samples[-2 * third : -third])) if third else 0
