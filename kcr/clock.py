"""Wall time, and time that counts suspension. The event loop is the only source of elapsed time beside them.

`asyncio.sleep`, `asyncio.timeout` and `call_at` follow the loop, so nothing here waits.
"""

import time
from datetime import UTC, datetime
from typing import Protocol

# macOS has no CLOCK_BOOTTIME: there CLOCK_MONOTONIC counts sleep, and `time.monotonic` reads another clock.
_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


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
