"""Notices that the calendar has jumped: the machine slept, or somebody set its clock.

Timers run on the loop's time, which stands still while a machine sleeps and does not care for the date. Those set
before a jump would be late, or early, by as much.
"""

import asyncio
from collections.abc import Callable

from kcr.clock import Clock

CHECK_SECONDS = 60.0
# Less is what clocks are set right by all the time.
JUMP_SECONDS = 1.0


class ClockWatch:
    """Calls back after each jump, within a minute, and when small steps have come to as much."""

    name = "cronjob clock watch"

    def __init__(self, clock: Clock, jumped: Callable[[], object]) -> None:
        """Make one; it does nothing before it runs.

        Args:
            clock: Wall time.
            jumped: Has all timers that follow the calendar set anew.
        """
        self._clock = clock
        self._jumped = jumped

    async def run(self) -> None:
        """Watch until cancelled."""
        before = self._ahead()
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            ahead = self._ahead()
            if abs(ahead - before) > JUMP_SECONDS:
                before = ahead
                self._jumped()

    def _ahead(self) -> float:
        """Return by how many seconds the calendar is ahead of the loop."""
        return self._clock.now().timestamp() - asyncio.get_running_loop().time()
