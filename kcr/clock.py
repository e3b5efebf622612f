"""Wall time. The event loop is the only source of elapsed time; this says what the calendar shows.

`asyncio.sleep`, `asyncio.timeout` and `call_at` follow the loop, so nothing here waits.
"""

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What time it is. Production reads the system's clock, tests a virtual loop's."""

    def now(self) -> datetime:
        """Return the present moment, timezone-aware UTC."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        """Return the present moment, timezone-aware UTC."""
        return datetime.now(UTC)
