"""Wall time, and time that counts suspension. The event loop is the only source of elapsed time beside them.

`asyncio.sleep`, `asyncio.timeout` and `call_at` follow the loop, so nothing here waits.

kcr runs on any event loop, and timers of uvloop are in whole milliseconds. They fire up to half a millisecond before
their time, and those of one millisecond in the order in which they were set. A delay of half a millisecond or less is a
`call_soon`, whose handle has no `when`, and which precedes later calls of `call_soon`. So the moment of a timer is kept
beside its handle, and a callback that compares moments allows for `TIMER_SLACK_SECONDS`: one that waited for the rest
would spin until the millisecond is over.
"""

import time
from datetime import UTC, datetime
from typing import Protocol

# macOS has no CLOCK_BOOTTIME: there CLOCK_MONOTONIC counts sleep, and `time.monotonic` reads another clock.
_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))

# So much before its time a timer may fire, rounding of its moment included.
TIMER_SLACK_SECONDS = 0.001


class Clock(Protocol):
    """The source of time: the system's clocks in production, a virtual loop's in tests."""

    def now(self) -> datetime:
        """Return the present moment, timezone-aware UTC."""
        ...

    def boottime(self) -> float:
        """Return the seconds since a fixed moment, those included for which the machine was suspended.

        The loop's time may stand still meanwhile (CLOCK_MONOTONIC does on Linux).
        """
        ...


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        """Return the present moment, timezone-aware UTC."""
        return datetime.now(UTC)

    def boottime(self) -> float:
        """Return CLOCK_BOOTTIME; where there is none, the clock that counts suspension best."""
        return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)
