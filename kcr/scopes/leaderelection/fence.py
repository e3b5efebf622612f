"""The fence: how long ago the lease was renewed, by every clock that tells, and whether the leader may still write.

The loop's time is CLOCK_MONOTONIC, which stands still on Linux while the machine is suspended, and in a virtual machine
that is paused; the candidates on other machines count on. So the fence reads three clocks, and the one that has moved
the furthest since the last renewal decides:

- the loop's time, which no one can set;
- CLOCK_BOOTTIME, which counts a suspension of the machine;
- the wall clock, which an agent of the hypervisor or NTP sets forward when a paused virtual machine is resumed.

A wall clock that is set back therefore changes nothing, and one that is set forward without a pause refuses writes
until the next renewal: within a retry period. A pause that no clock has counted is found by the next renewal alone.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from kcr.clock import Clock


class Reading(NamedTuple):
    """The clocks at one moment: the loop's time, CLOCK_BOOTTIME and the wall clock."""

    loop: float
    boottime: float
    wall: datetime

    def seconds_until(self, later: "Reading") -> float:
        """Return the seconds from this reading to a later one, by the clock that has moved the furthest."""
        by_wall = (later.wall - self.wall).total_seconds()
        return max(later.loop - self.loop, later.boottime - self.boottime, by_wall)


class Fence:
    """Decides whether another process may hold the lease; all methods are thread-safe.

    It counts from the moment at which the last successful renewal was *sent*, so that its answer is never later than
    the count of the other candidates, which begins when they see the renewal.
    """

    def __init__(self, clock: Clock, loop_time: Callable[[], float], seconds: float) -> None:
        """Make a fence that is closed until the first renewal.

        Args:
            clock: For CLOCK_BOOTTIME and the wall clock.
            loop_time: The time of the elector's loop.
            seconds: How long after a renewal the leader may write.
        """
        self._clock = clock
        self._loop_time = loop_time
        self._seconds = seconds
        self._renewed: Reading | None = None
        # The readings at which the fence closes, whichever comes first: `is_closed` is asked before every write.
        self._closes_at: Reading | None = None

    def read(self) -> Reading:
        """Return the clocks' readings; called before a renewal is sent."""
        return Reading(self._loop_time(), self._clock.boottime(), self._clock.now())

    def renewed(self, sent: Reading) -> None:
        """Record a successful renewal with the clocks' readings from before it was sent."""
        self._renewed = sent
        wall = sent.wall + timedelta(seconds=self._seconds)
        self._closes_at = Reading(sent.loop + self._seconds, sent.boottime + self._seconds, wall)

    @property
    def age(self) -> float:
        """Seconds since the last successful renewal was sent; infinite before the first."""
        renewed = self._renewed
        return float("inf") if renewed is None else renewed.seconds_until(self.read())

    @property
    def is_closed(self) -> bool:
        """Whether the leader must not write: the lease may be another's."""
        end = self._closes_at
        if end is None or self._loop_time() >= end.loop:
            return True
        return self._clock.boottime() >= end.boottime or self._clock.now() >= end.wall
